"""A curve's row as a job: started, claimed by one worker, kept as it goes, ended, tidied up.

Whoever works on a curve holds it while its lease lasts and proves that by the fence, the number of
times it was taken; every write is compare-and-set on it, so that a worker thought dead, or one
whose curve was cancelled, changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from apps.documents.queues import queue_figures
from apps.evals.models import EvalRun, TuneRun
from apps.evals.tuning.errors import CurveRunning, GoalInvalid, NothingToTune
from apps.evals.tuning.grid import complete_grid
from apps.evals.tuning.measuring import survey
from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User
from worker.enqueue import wake

TASK = "evals.tune_next"
UNFINISHED = (TuneRun.State.WAITING, TuneRun.State.RUNNING)
ATTEMPTS_MAX = 5
# Measuring waits while documents are being ingested, whose work it would slow and be slowed by;
# not for ever.
PATIENCE = timedelta(hours=1)
WAITS_MAX = timedelta(hours=24)  # for something outside
# Any number: whoever holds it chooses the next curve.
_LOCK = 0x7475_6E65


class Lost(Exception):
    """The curve was cancelled, deleted or taken over: stop."""


@dataclass(frozen=True)
class Claim:
    """The right to work on a curve."""

    curve_id: uuid.UUID
    tenant_id: uuid.UUID
    fence: int


def start_curve(
    *,
    tenant: Tenant,
    user: User | None,
    goal: float = 0.98,
    k: int = 20,
    grid: Mapping[str, Sequence[Any]] | None = None,
    claimed: bool = False,
) -> TuneRun:
    """Have a curve measured. With `claimed` it is the caller's to work on, else a worker's.

    Raises GoalInvalid, GridInvalid, NothingToTune, CurveRunning.
    """
    ground = survey(tenant.id)
    if ground is None:
        raise NothingToTune
    _check_goal(goal, k, ground.in_force.leg_candidates)
    complete = complete_grid(grid or {}, ground.in_force)
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).only("id").get(id=tenant.id)
        if TuneRun.objects.filter(tenant=tenant, state__in=UNFINISHED).exists():
            raise CurveRunning
        curve = TuneRun.objects.create(
            tenant=tenant,
            index_id=ground.index.id,
            recall_goal=goal,
            k=k,
            grid=complete,
            created_by=user,
        )
        if claimed:
            _claim(TuneRun.objects.filter(id=curve.id))
            curve.refresh_from_db()
        record_audit(
            action="curve.started",
            tenant_id=tenant.id,
            actor_id=user.id if user else None,
            subject_id=curve.id,
        )
        if not claimed:
            wake(TASK)
    return curve


def cancel_curve(*, tenant: Tenant, user: User | None, curve_id: uuid.UUID) -> bool:
    """Stop a curve; False where it has ended already. What was built for it is dropped."""
    with transaction.atomic():
        unfinished = TuneRun.objects.filter(tenant=tenant, id=curve_id, state__in=UNFINISHED)
        ended = unfinished.update(state=TuneRun.State.CANCELLED, finished_at=timezone.now())
        if ended:
            record_audit(
                action="curve.cancelled",
                tenant_id=tenant.id,
                actor_id=user.id if user else None,
                subject_id=curve_id,
            )
            wake(TASK)
    return ended == 1


def take() -> Claim | None:
    """The next curve to work on: one at a time on the whole site, for two would slow each other.

    None also while documents are being ingested, or a run measures. One that was taken
    ATTEMPTS_MAX times without getting further fails, and one that has waited for WAITS_MAX.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        (alone,) = cursor.fetchone()
        if not alone or _being_measured().exists():
            return None
        curve = TuneRun.objects.filter(state__in=UNFINISHED).filter(_free()).order_by("created_at")
        found = curve.select_for_update(skip_locked=True, of=("self",)).first()
        if found is None or _should_wait(found):
            return None
        if code := _hopeless(found):
            _end(TuneRun.objects.filter(id=found.id), TuneRun.State.FAILED, error_code=code)
            return None
        _claim(TuneRun.objects.filter(id=found.id))
        return Claim(found.id, found.tenant_id, found.fence + 1)


def claim_of(curve: TuneRun) -> Claim:
    """Of a curve that was started `claimed`."""
    return Claim(curve.id, curve.tenant_id, curve.fence)


def keep(claim: Claim, **fields: Any) -> None:
    """Write what there is so far and hold the curve on; this attempt has got further.

    Raises Lost.
    """
    expires = Now() + timedelta(seconds=settings.JOB_LEASE_S)
    if not _held(claim).update(lease_expires_at=expires, attempt=0, error_code="", **fields):
        raise Lost


def hold(claim: Claim) -> None:
    """Hold the curve on without having got further. Raises Lost."""
    expires = Now() + timedelta(seconds=settings.JOB_LEASE_S)
    if not _held(claim).update(lease_expires_at=expires):
        raise Lost


def put_back(claim: Claim) -> None:
    """Let others have a turn."""
    _held(claim).update(lease_expires_at=None)


def wait(claim: Claim, *, delay_s: float, code: str) -> None:
    """Try again later: `code` says what is waited for. Not an attempt."""
    until = Now() + timedelta(seconds=delay_s)
    _held(claim).update(lease_expires_at=until, error_code=code[:60], attempt=0)


def finish(claim: Claim, **fields: Any) -> None:
    """The curve is measured. Raises Lost."""
    if not _end(_held(claim), TuneRun.State.DONE, error_code="", **fields):
        raise Lost


def fail(claim: Claim, *, code: str) -> None:
    _end(_held(claim), TuneRun.State.FAILED, error_code=code[:60])


def _check_goal(goal: float, k: int, leg_candidates: int) -> None:
    if not 0.5 <= goal <= 1.0:
        raise GoalInvalid("The recall goal is a number from 0.5 to 1.")
    if not 1 <= k <= leg_candidates:
        raise GoalInvalid(
            f"k is a whole number from 1 to {leg_candidates}, the candidates of vector search."
        )


def _hopeless(curve: TuneRun) -> str:
    """Why the curve is given up; empty where it is not."""
    if curve.attempt >= ATTEMPTS_MAX:
        return "kept_crashing"
    return curve.error_code if timezone.now() - curve.created_at > WAITS_MAX else ""


def _should_wait(curve: TuneRun) -> bool:
    if timezone.now() - curve.created_at > PATIENCE:
        return False
    running = EvalRun.objects.filter(state=EvalRun.State.RUNNING, lease_expires_at__gt=Now())
    return running.exists() or any(queue.waiting or queue.working for queue in queue_figures())


def _claim(curve: QuerySet[TuneRun]) -> None:
    curve.update(
        state=TuneRun.State.RUNNING,
        fence=F("fence") + 1,
        attempt=F("attempt") + 1,
        lease_expires_at=Now() + timedelta(seconds=settings.JOB_LEASE_S),
        started_at=timezone.now(),
    )


def _end(curve: QuerySet[TuneRun], state: TuneRun.State, **fields: Any) -> int:
    return curve.update(state=state, lease_expires_at=None, finished_at=timezone.now(), **fields)


def _being_measured() -> QuerySet[TuneRun]:
    """A lease without a code is a worker's; with one, the time until it is tried again."""
    return TuneRun.objects.filter(
        state=TuneRun.State.RUNNING, lease_expires_at__gt=Now(), error_code=""
    )


def _free() -> Q:
    return Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=Now())


def _held(claim: Claim) -> QuerySet[TuneRun]:
    return TuneRun.objects.filter(
        tenant_id=claim.tenant_id,
        id=claim.curve_id,
        fence=claim.fence,
        state=TuneRun.State.RUNNING,
    )
