"""What may be tested: an upstream of the gateway's catalogue, this site's own gateway, or a server
at an address.

A load test is an attack on whatever stands at the other end. So only this machine may be one's
target, unless its host was named on its own beside the address. A name is resolved once, here: a
loopback one is replaced by its address, so that it cannot mean another machine later.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from ipaddress import ip_address
from typing import Literal
from urllib.parse import SplitResult, urlsplit, urlunsplit

from django.conf import settings
from django.core.exceptions import ValidationError

from apps.capacity.errors import TargetRefused
from apps.capacity.load.types import Target
from apps.gateway.calling import catalogue
from apps.gateway.calling.checks import KEY_PREFIX, check_key_variable, check_url
from apps.gateway.errors import GatewayError
from apps.gateway.types import Model, Route, Upstream
from apps.tenants.models import Tenant

URL_CHARS_MAX = 300
_RESOLVE_S = 3.0
_resolvers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="loadtest-dns")
_KINDS: dict[str, Literal["openai", "tgi"]] = {"openai": "openai", "tgi": "tgi"}


def upstream_target(name: str, *, model: str = "", hosts: Collection[str] = ()) -> Target:
    """The upstream called `name`, asked directly for `model`, or for what its first route names.

    Raises TargetRefused.
    """
    found = _upstreams().get(name)
    if found is None:
        offered = ", ".join(_upstreams()) or "none is configured"
        raise TargetRefused(f"There is no upstream {name[:60]!r} that writes text: {offered}.")
    upstream, route = found
    url, host = _allowed(upstream.url, hosts)
    return Target(
        kind=_KINDS[upstream.kind],
        url=url,
        host=host,
        model=model or route.model,
        upstream=upstream.name,
        metrics_url=_metrics(url),
    )


def gateway_target(
    *, model: str, tenant: str = "", url: str = "", hosts: Collection[str] = ()
) -> Target:
    """This site's own `/v1`, asked for the model of that alias.

    A key is made for `tenant` (a slug) while a point is measured, and revoked after it: the tenant
    pays, and its limits hold. Without a tenant, the command that runs the test brings a key.
    `url`: where the site answers, with its /v1, if not on this machine. Raises TargetRefused.
    """
    found = _chat_model(model)
    if tenant and not Tenant.objects.filter(slug=tenant).exists():
        raise TargetRefused(f"There is no tenant {tenant[:60]!r}.")
    at, host = _allowed(url or f"http://127.0.0.1:{settings.PORT}/v1", hosts)
    routes = found.routes
    return Target(
        kind="openai",
        url=at,
        host=host,
        model=found.alias,
        via="gateway",
        upstream=routes[0].upstream.name if len(routes) == 1 else "",
        tenant=tenant,
    )


def address_target(
    url: str,
    *,
    kind: Literal["openai", "tgi"] = "openai",
    model: str = "",
    hosts: Collection[str] = (),
    key_variable: str = "",
) -> Target:
    """A server at `url` (of an OpenAI-compatible one with its /v1). Raises TargetRefused.

    `key_variable` names the environment variable that holds its key, where a worker sees it.
    """
    try:
        check_key_variable(key_variable)
    except ValidationError as exc:
        raise TargetRefused(" ".join(exc.messages)) from exc
    at, host = _allowed(url, hosts)
    if kind == "openai" and not urlsplit(at).path.strip("/"):
        raise TargetRefused("The address of an OpenAI-compatible server ends with its /v1.")
    return Target(
        kind=kind,
        url=at,
        host=host,
        model=model,
        key_variable=key_variable,
        metrics_url=_metrics(at),
    )


def check_target(target: Target) -> None:
    """Whether a stored target is still one that was agreed to; raises TargetRefused.

    Rows may have been written by other means than these functions.
    """
    if target.kind != "null":
        _, host = _allowed(target.url, [target.host])
        if host.lower() != target.host.lower():
            raise TargetRefused("The host of the target is not the one that was named.")


def upstream_names() -> list[str]:
    """Upstreams that write text and have an address."""
    return list(_upstreams())


def model_names() -> list[str]:
    """Chat models that the gateway offers, the default first."""
    return [model.alias for model in _chat_models()]


def routes_of(target: Target) -> tuple[Route, ...]:
    """The ways that a test through the gateway may take; of a direct one, its own, if any."""
    if target.via == "gateway":
        models = [model for model in _chat_models() if model.alias == target.model]
        return models[0].routes if models else ()
    found = _upstreams().get(target.upstream)
    return (found[1],) if found else ()


def key_names() -> str:
    """How variables of keys must begin, for words beside a field."""
    return KEY_PREFIX


def _chat_models() -> list[Model]:
    try:
        models = catalogue.current().models
    except GatewayError as exc:
        raise TargetRefused(str(exc)) from exc
    return [model for model in models if model.kind == "chat"]


def _chat_model(alias: str) -> Model:
    models = {model.alias: model for model in _chat_models()}
    if alias not in models:
        offered = ", ".join(models) or "none is configured"
        raise TargetRefused(f"The gateway has no chat model {alias[:60]!r}: {offered}.")
    return models[alias]


def _upstreams() -> dict[str, tuple[Upstream, Route]]:
    """By name, with the first route that leads there."""
    routes = [route for model in _chat_models() for route in model.routes]
    return {
        route.upstream.name: (route.upstream, route)
        for route in reversed(routes)
        if route.upstream.kind in _KINDS
    }


def _allowed(url: str, hosts: Iterable[str]) -> tuple[str, str]:
    """The address to call, and its host where that is not this machine. Raises TargetRefused."""
    parts = _split(url)
    host = (parts.hostname or "").lower()
    named = {name.strip().lower().rstrip(".") for name in hosts}
    if (found := _loopback(host)) is None:
        if host.rstrip(".") not in named:
            raise TargetRefused(
                f"{host} is not this machine. A load test may put a server out of service, so "
                "another host is tested only when its name is given once more on its own."
            )
        return url.rstrip("/"), host
    if parts.scheme == "https":  # its certificate is for the name
        return url.rstrip("/"), ""
    shown = f"[{found}]" if ":" in found else found
    netloc = shown if parts.port is None else f"{shown}:{parts.port}"
    return urlunsplit(parts._replace(netloc=netloc)).rstrip("/"), ""


def _split(url: str) -> SplitResult:
    if not url or len(url) > URL_CHARS_MAX or not (url.isascii() and url.isprintable()):
        raise TargetRefused(f"Write an address of at most {URL_CHARS_MAX} characters.")
    if " " in url or "\\" in url:
        raise TargetRefused("This is no address.")
    try:
        check_url(url)
    except ValidationError as exc:
        raise TargetRefused(" ".join(exc.messages)) from exc
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise TargetRefused("A key does not belong in the address.")
    return parts


def _loopback(host: str) -> str | None:
    """The address that `host` has on this machine; None where it is, or may be, another."""
    try:
        address = ip_address(host)
    except ValueError:
        found = _resolve(host)
        if not all(ip_address(each).is_loopback for each in found):
            return None
        # Servers that listen at one address listen at the IPv4 one.
        return min(found, key=lambda each: ":" in each)
    mapped = getattr(address, "ipv4_mapped", None) or address
    return str(mapped) if mapped.is_loopback else None


def _resolve(host: str) -> list[str]:
    """All addresses of a name. The resolver takes no deadline of its own."""
    asked = _resolvers.submit(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
    try:
        found = asked.result(timeout=_RESOLVE_S)
    except (OSError, UnicodeError, TookTooLong) as exc:
        raise TargetRefused(f"There is no host {host[:100]!r}, as far as can be told.") from exc
    return [str(each[4][0]).partition("%")[0] for each in found]


def _metrics(url: str) -> str:
    """Where such servers export their counters: beside the API, not below it."""
    return f"{url.removesuffix('/v1')}/metrics"
