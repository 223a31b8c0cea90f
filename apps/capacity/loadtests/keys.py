"""The key that a target wants: in the generator's environment while a point is measured, and
nowhere else."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.utils import timezone

from apps.capacity.errors import TargetRefused
from apps.capacity.load.types import Target
from apps.capacity.loadtests.targets import routes_of
from apps.gateway.calling.checks import check_key_variable
from apps.tenants.models import Tenant, User
from apps.tenants.services.keys import create_key, revoke_key


@contextmanager
def key_for(
    target: Target, *, test_id: uuid.UUID, user: User | None, lasts_s: float, given: str = ""
) -> Iterator[str]:
    """The key for one point. `given`: a person's own, which comes first.

    For the gateway, one of `target.tenant` that may use that one model and opens no collection; it
    is revoked when the block ends, and runs out after `lasts_s` where the process was killed.
    Raises TargetRefused.
    """
    if given or target.kind == "null":
        yield given
    elif target.via == "gateway":
        with _made_for(target, test_id=test_id, user=user, lasts_s=lasts_s) as raw:
            yield raw
    elif target.upstream:
        yield _of_upstream(target)
    else:
        yield _of_variable(target.key_variable)


@contextmanager
def _made_for(
    target: Target, *, test_id: uuid.UUID, user: User | None, lasts_s: float
) -> Iterator[str]:
    tenant = Tenant.objects.filter(slug=target.tenant).first()
    if tenant is None or user is None:
        raise TargetRefused(
            "A test through the gateway needs a key: name a tenant that a signed-in person may "
            "have pay for it, or give the command one in LOADTEST_KEY."
        )
    key, raw = create_key(
        tenant=tenant,
        name=f"Load test {test_id}",
        expires_at=timezone.now() + timedelta(seconds=lasts_s),
        actor=user,
        collection_ids=[test_id],  # there is no such collection: it opens none
        may_use_models=True,
        model_aliases=[target.model],
    )
    try:
        yield raw
    finally:
        with suppress(Tenant.DoesNotExist):
            revoke_key(key=key, actor=user)


def _of_upstream(target: Target) -> str:
    """Sent to that upstream's own address only, whatever the row of the test says."""
    routes = [route for route in routes_of(target) if route.upstream.name == target.upstream]
    if not routes:
        raise TargetRefused(f"There is no upstream {target.upstream[:60]!r} any more.")
    key = routes[0].upstream.key
    if key and not _same_place(routes[0].upstream.url, target.url):
        raise TargetRefused(
            f"The upstream {target.upstream[:60]!r} is at another address now. Start a new test."
        )
    return key


def _same_place(one: str, other: str) -> bool:
    """Also where a name of this machine was replaced by its address."""
    here = ("localhost", "127.0.0.1", "[::1]")

    def plain(url: str) -> str:
        text = url.rstrip("/")
        for name in here:
            text = text.replace(f"//{name}", "//here", 1)
        return text

    return plain(one) == plain(other)


def _of_variable(name: str) -> str:
    try:
        check_key_variable(name)
    except ValidationError as exc:
        raise TargetRefused(" ".join(exc.messages)) from exc
    return os.environ[name] if name else ""
