"""Who works on a load test: a row is taken by compare-and-set, with a fence and a lease, as runs of
evaluations are. A worker that was thought dead changes nothing.

One at a time, whoever's: two would measure each other. A test that was stopped keeps its lease
until its generator has ended.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from apps.capacity.models import LoadTest

ATTEMPTS_MAX = 3  # takings without one more point measured
UNFINISHED = (LoadTest.State.WAITING, LoadTest.State.RUNNING)
_LOCK_TAKING = "SELECT pg_advisory_xact_lock(hashtextextended('capacity_loadtest', 0))"
_FREE = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=Now())


@dataclass(frozen=True)
class Claim:
    """A test that was taken, and the proof that it is still held."""

    test_id: uuid.UUID
    fence: int
    attempt: int

    def mine(self) -> QuerySet[LoadTest]:
        """The row, as long as nobody else has taken it, whether or not a person has stopped it."""
        return LoadTest.objects.filter(id=self.test_id, fence=self.fence)

    def held(self) -> QuerySet[LoadTest]:
        """The row, while it is to be worked on."""
        return self.mine().filter(state=LoadTest.State.RUNNING)


def take(test_id: uuid.UUID | None = None) -> Claim | None:
    """The oldest test, or that one; None where there is none that is free, or one is under way.

    One that was taken ATTEMPTS_MAX times without getting further is failed instead, with the code
    of what it failed of last.
    """
    while (claim := _take(test_id)) is not None:
        if claim.attempt <= ATTEMPTS_MAX:
            return claim
        codes = claim.held().values_list("error_code", flat=True)
        fail(claim, codes.first() or "kept_crashing")
    return None


@transaction.atomic
def _take(test_id: uuid.UUID | None) -> Claim | None:
    lock_taking()
    if is_one_under_way():
        return None
    tests = LoadTest.objects.filter(state__in=UNFINISHED)
    if test_id is not None:
        tests = tests.filter(id=test_id)
    test = tests.order_by("created_at", "id").select_for_update(no_key=True).first()
    if test is None:
        return None
    LoadTest.objects.filter(id=test.id).update(
        state=LoadTest.State.RUNNING,
        fence=test.fence + 1,
        attempt=test.attempt + 1,
        lease_expires_at=lease_end(),
        started_at=Coalesce("started_at", Now()),
    )
    return Claim(test.id, test.fence + 1, test.attempt + 1)


def lock_taking() -> None:
    """Until the transaction's end nobody takes a test."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_TAKING)


def is_one_under_way() -> bool:
    """Whether a lease runs: somebody measures, or a test waits to be tried again."""
    return LoadTest.objects.filter(lease_expires_at__gt=Now()).exists()


def lease_end() -> object:
    return Now() + timedelta(seconds=settings.JOB_LEASE_S)


def renew(claim: Claim, **fields: Any) -> bool:
    """Hold on, with what is new; False where it is to be worked on no more."""
    return claim.held().update(lease_expires_at=lease_end(), **fields) == 1


def give_back(claim: Claim, *, pause_s: float = 0.0, code: str = "", **fields: Any) -> None:
    """Let this worker, or another, go on later. A `code`: this attempt has failed."""
    claim.held().update(
        lease_expires_at=Now() + timedelta(seconds=pause_s) if pause_s else None,
        error_code=code[:60],
        **fields,
    )


def hand_over(claim: Claim) -> None:
    """The attempt counts for nothing: this process is about to end."""
    claim.held().update(lease_expires_at=None, attempt=F("attempt") - 1)


def release(claim: Claim) -> None:
    """The generator has ended of a test that a person stopped."""
    claim.mine().update(lease_expires_at=None)


def end(claim: Claim, state: LoadTest.State, **fields: Any) -> bool:
    """Whether it was ours to end."""
    ended = claim.held().update(
        state=state, finished_at=Now(), lease_expires_at=None, progress={}, **fields
    )
    return ended == 1


def fail(claim: Claim, code: str, **fields: Any) -> None:
    end(claim, LoadTest.State.FAILED, error_code=code[:60], **fields)


def is_due() -> bool:
    """Whether some test could be taken now."""
    free = LoadTest.objects.filter(_FREE, state__in=UNFINISHED)
    return free.exists() and not is_one_under_way()
