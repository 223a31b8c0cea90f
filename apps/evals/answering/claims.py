"""Who works on a gate: taken by compare-and-set, with a fence and a lease, as evaluation runs are.

One at a time, of all tenants: two would measure each other's load.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from apps.evals.claims import ATTEMPTS_MAX, lease_end
from apps.evals.models import AnswerRun

UNFINISHED = (AnswerRun.State.WAITING, AnswerRun.State.RUNNING)
_LOCK_TAKING = "SELECT pg_advisory_xact_lock(hashtextextended('evals_answerrun', 0))"
_FREE = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=Now())


@dataclass(frozen=True)
class AnswerClaim:
    """A gate that was taken, and the proof that it is still held."""

    run_id: uuid.UUID
    tenant_id: uuid.UUID
    fence: int
    attempt: int

    def held(self) -> QuerySet[AnswerRun]:
        return AnswerRun.objects.filter(
            tenant_id=self.tenant_id, id=self.run_id, fence=self.fence, state="running"
        )


def take(run_id: uuid.UUID | None = None) -> AnswerClaim | None:
    """The next gate, or that one if it is free; None where there is none, or one is under way.

    One that was taken ATTEMPTS_MAX times without getting further is failed instead.
    """
    while (claim := _take(run_id)) is not None:
        if claim.attempt <= ATTEMPTS_MAX:
            return claim
        fail(claim, "kept_crashing")
    return None


@transaction.atomic
def _take(run_id: uuid.UUID | None) -> AnswerClaim | None:
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_TAKING)
    runs = AnswerRun.objects.filter(_FREE, state__in=UNFINISHED)
    if run_id is not None:
        runs = runs.filter(id=run_id)
    if AnswerRun.objects.filter(state__in=UNFINISHED, lease_expires_at__gt=Now()).exists():
        return None
    run = (
        runs.order_by(F("lease_expires_at").asc(nulls_first=True), "created_at")
        .select_for_update(skip_locked=True, no_key=True)
        .first()
    )
    if run is None:
        return None
    AnswerRun.objects.filter(id=run.id).update(
        state=AnswerRun.State.RUNNING,
        fence=run.fence + 1,
        attempt=run.attempt + 1,
        lease_expires_at=lease_end(),
        started_at=Coalesce("started_at", Now()),
    )
    return AnswerClaim(run.id, run.tenant_id, run.fence + 1, run.attempt + 1)


def renew(claim: AnswerClaim) -> bool:
    """Before a step that may take a while; False where it is not ours any more."""
    return claim.held().update(lease_expires_at=lease_end()) == 1


def give_back(claim: AnswerClaim, *, pause_s: float = 0.0, got_further: bool) -> None:
    attempt = 0 if got_further else claim.attempt
    claim.held().update(lease_expires_at=Now() + timedelta(seconds=pause_s), attempt=attempt)


def note_done(claim: AnswerClaim, **changes: object) -> bool:
    """One more step is done, in the open transaction; False when it is not ours."""
    done = claim.held().update(
        done=F("done") + 1, attempt=1, lease_expires_at=lease_end(), **changes
    )
    return done == 1


def fail(claim: AnswerClaim, code: str) -> None:
    claim.held().update(
        state=AnswerRun.State.FAILED,
        error_code=code[:60],
        finished_at=Now(),
        lease_expires_at=None,
    )


def is_due() -> bool:
    """Whether some gate could be taken now."""
    unfinished = AnswerRun.objects.filter(state__in=UNFINISHED)
    return (
        unfinished.filter(_FREE).exists()
        and not unfinished.filter(lease_expires_at__gt=Now()).exists()
    )
