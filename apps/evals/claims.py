"""Who works on a run: a row is taken by compare-and-set, with a fence and a lease, as documents'
jobs are. A worker that was thought dead changes nothing.

One run at a time, of all tenants, and for a slice of time: measuring may wait, documents and
questions may not. The run that has waited for longest is next.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from apps.evals.models import EvalRun

ATTEMPTS_MAX = 3  # takings without one more question done: it kills its workers
UNFINISHED = (EvalRun.State.WAITING, EvalRun.State.RUNNING)
_LOCK_TAKING = "SELECT pg_advisory_xact_lock(hashtextextended('evals_evalrun', 0))"
_FREE = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=Now())


@dataclass(frozen=True)
class RunClaim:
    """A run that was taken, and the proof that it is still held."""

    run_id: uuid.UUID
    tenant_id: uuid.UUID
    fence: int
    attempt: int

    def held(self) -> QuerySet[EvalRun]:
        return EvalRun.objects.filter(
            tenant_id=self.tenant_id, id=self.run_id, fence=self.fence, state=EvalRun.State.RUNNING
        )


def take(run_id: uuid.UUID | None = None) -> RunClaim | None:
    """The next run, or that one if it is free; None where there is none, or one is under way.

    One that was taken ATTEMPTS_MAX times without getting further is failed instead.
    """
    while (claim := _take(run_id)) is not None:
        if claim.attempt <= ATTEMPTS_MAX:
            return claim
        fail(claim, "kept_crashing")
    return None


@transaction.atomic
def _take(run_id: uuid.UUID | None) -> RunClaim | None:
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_TAKING)
    runs = EvalRun.objects.filter(_FREE, state__in=UNFINISHED)
    if run_id is not None:
        runs = runs.filter(id=run_id)
    elif EvalRun.objects.filter(state__in=UNFINISHED, lease_expires_at__gt=Now()).exists():
        return None
    run = (
        runs.order_by(F("lease_expires_at").asc(nulls_first=True), "created_at")
        .select_for_update(skip_locked=True, no_key=True)
        .first()
    )
    if run is None:
        return None
    EvalRun.objects.filter(id=run.id).update(
        state=EvalRun.State.RUNNING,
        fence=run.fence + 1,
        attempt=run.attempt + 1,
        lease_expires_at=lease_end(),
        started_at=Coalesce("started_at", Now()),
    )
    return RunClaim(run.id, run.tenant_id, run.fence + 1, run.attempt + 1)


def lease_end() -> object:
    return Now() + timedelta(seconds=settings.JOB_LEASE_S)


def give_back(claim: RunClaim, *, pause_s: float = 0.0, got_further: bool) -> None:
    """Let another run, or a later moment, have its turn."""
    attempt = 0 if got_further else claim.attempt
    claim.held().update(lease_expires_at=Now() + timedelta(seconds=pause_s), attempt=attempt)


def note_done(claim: RunClaim) -> bool:
    """One more question is done, in the open transaction; False when the run is not ours."""
    return claim.held().update(done=F("done") + 1, attempt=1, lease_expires_at=lease_end()) == 1


def fail(claim: RunClaim, code: str) -> None:
    claim.held().update(
        state=EvalRun.State.FAILED,
        error_code=code[:60],
        finished_at=Now(),
        lease_expires_at=None,
    )


def is_due() -> bool:
    """Whether some run could be taken now."""
    unfinished = EvalRun.objects.filter(state__in=UNFINISHED)
    return (
        unfinished.filter(_FREE).exists()
        and not unfinished.filter(lease_expires_at__gt=Now()).exists()
    )
