"""Whose build is worked on next, and the proof that it is still held.

A build is a row with a state and a lease. Whoever takes it counts its fence up and holds it while
the lease lasts; a lease that has run out, or that was set to wait, lets the next one take it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now

from apps.retrieval.models import IndexBuild

State = IndexBuild.State
# Both indexes get every document, whichever is in force.
KEPT_IN_STEP = (State.READY, State.SWITCHED, State.BACK)
WORKED_ON = (State.BUILDING, *KEPT_IN_STEP, State.DROPPING)
_TAKE = """
    UPDATE retrieval_indexbuild SET fence = fence + 1,
        lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s)
    WHERE id = (
        SELECT id FROM retrieval_indexbuild
        WHERE state = ANY(%(states)s)
            AND (lease_expires_at IS NULL OR lease_expires_at <= statement_timestamp())
        ORDER BY lease_expires_at NULLS FIRST, created_at LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING id, tenant_id, state, fence
"""


class Lost(Exception):
    """The build was paused, given up, or is another worker's by now: stop, and say nothing."""


@dataclass(frozen=True)
class BuildClaim:
    """A build that was taken: whose it is, in which state, and the proof that it is held."""

    build_id: uuid.UUID
    tenant_id: uuid.UUID
    state: str
    fence: int


def take() -> BuildClaim | None:
    """The build that has waited longest; None where none is due."""
    values: dict[str, Any] = {
        "lease_s": settings.JOB_LEASE_S,
        "states": [str(state) for state in WORKED_ON],
    }
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, values)
        row = cursor.fetchone()
    if row is None:
        return None
    build_id, tenant_id, state, fence = row
    return BuildClaim(build_id, tenant_id, state, fence)


def held(claim: BuildClaim) -> QuerySet[IndexBuild]:
    """The build while it is the claim's, and in the state it was taken in."""
    return IndexBuild.objects.filter(
        tenant_id=claim.tenant_id, id=claim.build_id, fence=claim.fence, state=claim.state
    )


def renew(claim: BuildClaim) -> None:
    """Hold the build on; in a transaction, to its end. Raises Lost."""
    expires = Now() + timedelta(seconds=settings.JOB_LEASE_S)
    if not held(claim).update(lease_expires_at=expires):
        raise Lost


def release(claim: BuildClaim, *, delay_s: float) -> None:
    """Let the build be taken again after so long, whatever state it is in by now."""
    IndexBuild.objects.filter(
        tenant_id=claim.tenant_id, id=claim.build_id, fence=claim.fence
    ).update(lease_expires_at=Now() + timedelta(seconds=delay_s))
