"""A curve's work in turns: each goes on where the last one ended, whoever's that was."""

from __future__ import annotations

import time

from apps.evals.tuning import builds, jobs
from apps.evals.tuning.measurement import Pace, begin
from apps.evals.tuning.probes import OtherModel
from apps.inference.errors import InferenceError
from worker.enqueue import wake

# A worker's thread is given back after so long: what else is queued gets its turn.
TURN_S = 30.0
# Until something that does not answer is asked again.
RETRY_S = 30.0


def tune_next() -> None:
    """One turn on the next curve, in a worker. What ended curves have left behind is dropped."""
    builds.tidy()
    claim = jobs.take()
    if claim is None:
        return
    work_on(claim, Pace(until=time.monotonic() + TURN_S))
    wake(jobs.TASK)


def work_on(claim: jobs.Claim, pace: Pace) -> bool:
    """Measure until the curve ends (True), or the turn does, or something is waited for (False)."""
    try:
        measurement = begin(claim, pace)
        if measurement is None:
            return True
        if not (measurement.measure_vectors() and measurement.measure_depths()):
            jobs.put_back(claim)
            return False
        measurement.finish()
    except jobs.Lost:
        return True
    except builds.NotReady as exc:
        jobs.wait(claim, delay_s=exc.delay_s, code=exc.code)
        return False
    except (builds.BuildFailed, OtherModel) as exc:
        jobs.fail(claim, code=exc.code)
        return True
    except InferenceError as exc:
        jobs.wait(claim, delay_s=RETRY_S, code=exc.code)
        return False
    return True
