"""For once over real sockets and a real clock: latencies so long that noise does not decide.

A point whose generator was itself late is measured again, three times at most: with everything
busy on the machine it says so itself, and its figures are not to be used.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from apps.capacity.load.measures import Figures
from apps.capacity.load.types import Job, Target
from tests.capacity.load.jobs import job
from tests.capacity.load.test_process import ROOT, generate

pytestmark = pytest.mark.slow
TRIES = 3


def measured(
    wanted: Callable[[Target], Job], known: dict[str, float]
) -> tuple[Figures, list[float]]:
    """The point's figures, and how long its double let each request wait, in milliseconds."""
    for _ in range(TRIES):
        figures, waits_s = _once(wanted, known)
        if figures.client.is_trustworthy:
            return figures, [1000 * each for each in waits_s]
    pytest.skip(f"too busy a machine to measure on: lag p99 {figures.client.lag_p99_ms:.1f} ms")


def _once(wanted: Callable[[Target], Job], known: dict[str, float]) -> tuple[Figures, list[float]]:
    command = (sys.executable, "-m", "tests.capacity.load.double", json.dumps(known))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as double:
        assert double.stdout is not None
        port = int(double.stdout.readline())
        target = Target(kind="openai", url=f"http://127.0.0.1:{port}/v1")
        *_, done = generate(wanted(target).model_dump_json().encode())
        waits, _ = double.communicate()
    return Figures.model_validate(done.figures), json.loads(waits)


@pytest.mark.parametrize("stalls", [False, True])
def test_true_percentiles_are_recovered_within_two_percent(stalls: bool) -> None:
    known = {"first_s": 0.3, "gap_s": 0.02}
    if stalls:
        known |= {"stall_every": 10, "stall_s": 0.6}
    figures, waits = measured(
        lambda target: job("poisson", 8, duration_s=5, tokens=6, target=target), known
    )
    assert figures.complete == figures.requests == len(waits) > 20
    assert figures.ttft_sent is not None
    assert figures.ttft is not None
    assert figures.tpot is not None
    told = figures.ttft_sent.p50_ms, figures.ttft_sent.p95_ms, figures.ttft_sent.p99_ms
    truth = np.percentile(waits, [50, 95, 99])
    assert told == pytest.approx(tuple(truth), rel=0.02)
    assert figures.ttft.p50_ms == pytest.approx(truth[0], rel=0.02)
    assert figures.tpot.p50_ms == pytest.approx(20, rel=0.02)
    assert (figures.ttft_sent.p99_ms > 880) is stalls


def test_open_loop_shows_the_stall_that_a_closed_loop_hides() -> None:
    """A server that stands still for 0.6 s in every 2.5 s; what is told apart is far apart."""
    known = {"first_s": 0.01, "gap_s": 0.0, "pause_every_s": 2.5, "pause_s": 0.6}
    hidden, _ = _once(lambda target: job("closed", 1, duration_s=5, tokens=2, target=target), known)
    shown, _ = _once(
        lambda target: job("constant", 30, duration_s=5, tokens=2, target=target), known
    )
    assert hidden.ttft is not None
    assert shown.ttft is not None
    assert hidden.requests > 200
    assert hidden.ttft.p99_ms < 300
    assert shown.ttft.p99_ms > 450
    assert shown.ttft.p95_ms > 10 * hidden.ttft.p50_ms
