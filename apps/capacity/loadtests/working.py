"""Load tests, worked on point by point: by a worker, a point a turn, or by a command.

waiting → running → done, failed or cancelled. A point is written together with its test's state, so
a killed worker's test goes on with the point that it was at.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from pydantic import ValidationError

from apps.capacity.errors import LoadTestError
from apps.capacity.load.types import Target, Workload
from apps.capacity.loadtests import claims
from apps.capacity.loadtests.claims import UNFINISHED, Claim
from apps.capacity.loadtests.measuring import Halted, Work, measure, read_done
from apps.capacity.loadtests.plan import Plan
from apps.capacity.loadtests.progress import OnProgress, ignore_progress
from apps.capacity.loadtests.results import result_of
from apps.capacity.loadtests.steps import End, next_step
from apps.capacity.models import LoadTest
from worker.enqueue import wake

logger = logging.getLogger(__name__)

RUN_NEXT = "capacity.run_next"
PAUSE_S = 5.0  # after a point that failed
_POLL_S = 0.5


def run_next() -> None:
    """Measure one point of the next test, and have it gone on with."""
    claim = claims.take()
    if claim is None:
        return
    if turn(claim):
        claims.give_back(claim)
    if claims.is_due():
        wake(RUN_NEXT)


def wake_for_tests() -> None:
    """Have somebody look, where a test waits that nobody works on: its message may be lost."""
    if claims.is_due():
        wake(RUN_NEXT)


def run_here(
    test: LoadTest, *, key: str = "", on_progress: OnProgress = ignore_progress
) -> LoadTest:
    """See a test through to its end in this process (one made `held`), or follow it there.

    `key` is sent to the target, and kept nowhere. `on_progress` is told about once a second how far
    it is, and may stop the test.
    """
    claim: Claim | None = Claim(test.id, test.fence, test.attempt)
    while claim is not None:
        # Held from point to point: a worker that took the next one would have no key.
        while turn(claim, key=key, on_progress=on_progress):
            pass
        claim = _next_claim(test)
    test.refresh_from_db()
    return test


def turn(claim: Claim, *, key: str = "", on_progress: OnProgress = ignore_progress) -> bool:
    """Measure the next point of a test that was taken, or end it where there is none.

    True: a point was measured, and the test is still held.
    """
    work = _read(claim, key)
    if work is None:
        return False
    step = next_step(work.plan, work.done, elapsed_s=work.elapsed_s)
    if isinstance(step, End):
        result = result_of(work.plan, work.done, ended=step.reason)
        claims.end(claim, LoadTest.State.DONE, error_code="", result=result)
        return False
    try:
        measure(work, step, on_progress)
        return True
    except Halted as exc:
        _halt(replace(work, done=exc.done))
    except LoadTestError as exc:
        logger.warning("load test %s: a point failed: %s", claim.test_id, exc.code)
        result = result_of(work.plan, work.done, ended="stopped", message=str(exc))
        if exc.retryable:
            claims.give_back(claim, pause_s=PAUSE_S, code=exc.code, result=result)
        else:
            claims.fail(claim, exc.code, result=result)
    return False


def _next_claim(test: LoadTest) -> Claim | None:
    """For the next point, once the test can be taken; None when it has ended."""
    while True:
        state = LoadTest.objects.filter(id=test.id).values_list("state", flat=True).first()
        if state not in UNFINISHED:
            return None
        if (claim := claims.take(test.id)) is not None:
            return claim
        time.sleep(_POLL_S)  # it pauses, or a worker has it


def _read(claim: Claim, key: str) -> Work | None:
    """None: it is gone, or what is stored of it cannot be read, and so it has failed."""
    test = claim.held().select_related("created_by").first()
    if test is None:
        return None
    try:
        return Work(
            claim=claim,
            test=test,
            plan=Plan.model_validate(test.plan),
            target=Target.model_validate(test.target),
            workload=Workload.model_validate(test.workload),
            done=read_done(test),
            key=key,
        )
    except (ValidationError, TypeError, ValueError):
        claims.fail(claim, "unreadable")
        return None


def _halt(work: Work) -> None:
    """A person has stopped it; what was measured stays, with what it says of the knee so far."""
    result = result_of(work.plan, work.done, ended="stopped")
    work.claim.mine().filter(state=LoadTest.State.CANCELLED).update(result=result, progress={})
    claims.release(work.claim)
