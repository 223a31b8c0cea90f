"""Every page of the site that can be opened by its address, found in the URLconf."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
from django.urls import URLPattern, URLResolver, get_resolver

from tests.browser.furnished import Furnished

_ARGUMENT = re.compile(r"<(?:\w+:)?(\w+)>")
_REGEX = "(?P"  # routes written as expressions: links of mails, and the way to an issuer
_ROOM = re.compile(r"^(?:t/acme/)?([a-z0-9]*)")
# Of the admin, whose pages are the library's: its front, and of one model its list and forms.
_ADMIN = re.compile(r"^admin/($|login/|tenants/tenant/|gateway/price/add/|tenants/user/$)")


@dataclass(frozen=True)
class Opened:
    """A page, and who may see it; a stranger is ""."""

    path: str
    who: str

    @property
    def room(self) -> str:
        match = _ROOM.match(self.path)
        return match[1] if match else ""


def routes(
    patterns: list[URLPattern | URLResolver] | None = None, before: str = ""
) -> Iterator[str]:
    """Every route of the site, as it is written in the URLconf."""
    for each in get_resolver().url_patterns if patterns is None else patterns:
        route = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from routes(each.url_patterns, route)
        else:
            yield route


def pages(furnished: Furnished) -> list[Opened]:
    """Those that answer GET with a whole page (or a fault): not parts, files or refusals."""
    found = []
    for who in ("", "manager", "root"):
        with httpx.Client(
            base_url=furnished.site.root,
            cookies=furnished.cookies(who),
            trust_env=False,
            timeout=30,
        ) as client:
            found += [
                Opened(path, who) for path in _paths(furnished, who) if _is_page(client, path)
            ]
    return found


def _paths(furnished: Furnished, who: str) -> Iterator[str]:
    values = {**furnished.world, "tenant_slug": "acme", "language": "en"}
    for route in routes():
        if (
            _REGEX in route
            or not _is_for(route, who)
            or not set(_ARGUMENT.findall(route)) <= values.keys()
        ):
            continue
        path = _ARGUMENT.sub(lambda match: str(values[match[1]]), route)
        yield path


def _is_for(route: str, who: str) -> bool:
    if "logout" in route and not who:
        return False
    if route.startswith("accounts/"):
        return who != "root"
    if route.startswith("t/"):
        return who == "manager"
    return who == "root" and (not route.startswith("admin/") or bool(_ADMIN.match(route)))


def _is_page(client: httpx.Client, path: str) -> bool:
    with client.stream("GET", f"/{path}") as answer:
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            return True  # for whoever opens it to see
        if answer.status_code != httpx.codes.OK:
            return False
        if not answer.headers["content-type"].startswith("text/html"):
            return False
        return "<html" in answer.read().decode()[:2000]
