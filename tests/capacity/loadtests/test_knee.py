"""The search for the knee, on servers whose knee is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from apps.capacity.load.types import Promises
from apps.capacity.loadtests.crossing import Counted, find_crossing
from apps.capacity.loadtests.intervals import mean_interval, student_t, wilson
from apps.capacity.loadtests.knee import Measured, knee_of, next_load, search
from apps.capacity.loadtests.plan import Plan
from tests.capacity.loadtests.servers import Queue

SHARE = 0.95


def a_plan(*loads: float, **more: Any) -> Plan:
    values: dict[str, Any] = {
        "mode": "knee",
        "loads": loads or (0.25, 64.0),
        "promises": Promises(ttft_ms=500, share=SHARE),
        **more,
    }
    return Plan(**values)


def cliff(at: float, *, requests: int = 100) -> Callable[[float], Measured]:
    """All good up to `at`, none beyond."""
    return lambda load: Measured(load, requests, requests if load <= at else 0)


def watched(
    measure: Callable[[float], Measured],
) -> tuple[Callable[[float], Measured], list[float]]:
    loads: list[float] = []

    def measure_and_note(load: float) -> Measured:
        loads.append(load)
        return measure(load)

    return measure_and_note, loads


def test_the_search_doubles_then_halves_then_repeats_both_ends() -> None:
    measure, loads = watched(cliff(5.0))
    knee = search(measure, a_plan(0.5, 64.0, tightness=1.2))
    assert loads[:5] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert (knee.found, knee.reason, knee.repeats) == (True, "", 3)
    assert knee.low is not None
    assert knee.high is not None
    assert knee.low <= 5.0 < knee.high <= 1.2 * knee.low
    assert Counter(loads)[knee.low] == Counter(loads)[knee.high] == 3


def test_a_knee_lies_within_its_interval_and_its_bracket() -> None:
    knee = search(cliff(5.0), a_plan())
    assert knee.low is not None
    assert knee.high is not None
    assert knee.load is not None
    assert knee.load_low is not None
    assert knee.load_high is not None
    assert knee.low <= knee.load <= knee.high
    assert knee.load_low <= knee.load <= knee.load_high
    # A cliff between two loads cannot be told more exactly than by these.
    assert knee.load_low <= 5.0 <= knee.load_high


def test_a_closed_loop_ends_at_neighbours() -> None:
    measure, loads = watched(cliff(5))
    knee = search(measure, a_plan(1, 64, arrivals="closed", tightness=1.01))
    assert (knee.low, knee.high) == (5, 6)
    assert all(load == int(load) for load in loads)


@pytest.mark.parametrize(
    ("at", "reason", "low", "high"),
    [(0.1, "never_kept", None, 0.25), (1000.0, "always_kept", 64.0, None)],
)
def test_a_knee_outside_of_the_loads_is_not_found(
    at: float, reason: str, low: float | None, high: float | None
) -> None:
    knee = search(cliff(at), a_plan())
    assert (knee.found, knee.reason, knee.low, knee.high) == (False, reason, low, high)
    assert knee.load is None


def test_one_load_that_keeps_is_no_knee() -> None:
    knee = search(cliff(5.0), a_plan(2.0))
    assert (knee.found, knee.reason, knee.low) == (False, "always_kept", 2.0)


def test_a_search_goes_on_from_what_is_known() -> None:
    known = [cliff(5.0)(load) for load in (1.0, 2.0, 4.0, 8.0)]
    measure, loads = watched(cliff(5.0))
    knee = search(measure, a_plan(1.0, 8.0), known)
    assert knee.found
    assert all(4.0 <= load <= 8.0 for load in loads)


def test_a_search_that_was_cut_off_takes_the_same_way() -> None:
    plan = a_plan()
    whole: list[Measured] = []
    while (load := next_load(whole, plan)) is not None:
        whole.append(cliff(5.0)(load))
    for cut in range(len(whole)):
        assert next_load(whole[:cut], plan) == whole[cut].load


def test_a_close_verdict_is_repeated_before_it_decides() -> None:
    """94 of 100 good may well be 95 of 100: the interval of such a share holds the promise."""
    measured = [Measured(1.0, 100, 100), Measured(2.0, 100, 94)]
    assert next_load(measured, a_plan(1.0, 8.0)) == 2.0
    assert next_load([*measured, Measured(2.0, 100, 99)], a_plan(1.0, 8.0)) == 2.0
    third = [*measured, Measured(2.0, 100, 99), Measured(2.0, 100, 99)]
    assert next_load(third, a_plan(1.0, 8.0)) == 4.0


def test_a_bracket_that_repeats_contradict_moves() -> None:
    clear = [Measured(1.0, 1000, 1000), Measured(1.1, 1000, 980), Measured(1.2, 1000, 0)]
    turned = [*clear, Measured(1.1, 1000, 100)]
    knee = knee_of(turned, a_plan(1.0, 2.0))
    assert (knee.low, knee.high) == (1.0, 1.1)


def test_a_late_generator_is_repeated_once_and_then_told() -> None:
    plan = a_plan(1.0, 8.0)
    late = Measured(2.0, 100, 10, is_trustworthy=False)
    measured = [Measured(1.0, 100, 100), late]
    assert next_load(measured, plan) == 2.0
    assert next_load([*measured, late], plan) is None
    knee = knee_of([*measured, late], plan)
    assert (knee.found, knee.reason, knee.low) == (False, "untrustworthy", 1.0)


def test_a_second_measurement_in_time_replaces_a_late_one() -> None:
    late, sound = Measured(2.0, 100, 10, is_trustworthy=False), Measured(2.0, 100, 100)
    assert next_load([Measured(1.0, 100, 100), late, sound], a_plan(1.0, 8.0)) == 4.0


def test_promises_that_were_kept_in_spite_of_a_late_generator_count() -> None:
    kept = Measured(1.0, 100, 100, is_trustworthy=False)
    assert next_load([kept], a_plan(1.0, 8.0)) == 2.0


def test_rates_are_means_at_the_load_that_keeps_the_promises() -> None:
    points = [
        Measured(1.0, 100, 100, output_per_s=10, input_per_s=100, requests_per_s=0.9),
        Measured(1.0, 100, 100, output_per_s=20, input_per_s=300, requests_per_s=1.1),
        Measured(1.1, 100, 0, output_per_s=99, input_per_s=99, requests_per_s=99),
    ]
    knee = knee_of(points, a_plan(1.0, 2.0))
    assert (knee.output_per_s, knee.input_per_s, knee.requests_per_s) == (15, 200, 1.0)
    assert knee.repeats == 2


@pytest.mark.parametrize("reason", ["stopped", "out_of_time"])
def test_a_search_that_was_ended_says_so_and_keeps_what_it_has(reason: str) -> None:
    knee = knee_of([Measured(1.0, 100, 100), Measured(2.0, 100, 0)], a_plan(), stopped=reason)
    assert (knee.found, knee.reason, knee.low, knee.high) == (False, reason, 1.0, 2.0)


def test_nothing_measured_is_no_knee() -> None:
    assert knee_of([], a_plan(), stopped="stopped").found is False
    assert knee_of([], a_plan()).reason == "never_kept"


def test_no_request_at_all_keeps_no_promise() -> None:
    knee = search(lambda load: Measured(load, 0, 0), a_plan(1.0, 8.0))
    assert (knee.found, knee.reason) == (False, "never_kept")


@pytest.mark.parametrize("seed", range(60))
def test_every_search_ends(seed: int) -> None:
    """Whatever a server answers, at random here, within a bounded number of points."""
    dice = np.random.default_rng(seed)
    requests, repeats = int(dice.integers(1, 300)), int(dice.integers(1, 6))
    measure, loads = watched(
        lambda load: Measured(
            load, requests, int(dice.integers(0, requests + 1)), bool(dice.random() < 0.8)
        )
    )
    arrivals = "closed" if seed % 2 else "poisson"
    ends = [10.0 ** dice.uniform(-2, 3) for _ in range(2)]
    if arrivals == "closed":
        ends = [float(max(1, round(end))) for end in ends]
    knee = search(measure, a_plan(*ends, repeats=repeats, arrivals=arrivals))
    assert len(loads) <= 80 + 2 * repeats
    if knee.load is not None:
        assert knee.load_low is not None
        assert knee.load_high is not None
        assert 0 < knee.load_low <= knee.load <= knee.load_high < float("inf")


def searches(queue: Queue, count: int) -> list[tuple[float, float, float]]:
    plan = a_plan(0.05 * queue.slots / queue.service_s, 4.0 * queue.slots / queue.service_s)
    found = []
    for seed in range(1000, 1000 + count):  # other searches than those it was made with
        dice = np.random.default_rng(seed)
        knee = search(lambda load, dice=dice: queue.measure(load, dice), plan)  # type: ignore[misc]
        assert knee.found, (seed, knee)
        assert knee.load_low is not None
        assert knee.load is not None
        assert knee.load_high is not None
        found.append((knee.load_low, knee.load, knee.load_high))
    return found


def covered(found: Sequence[tuple[float, float, float]], true: float) -> float:
    return sum(low <= true <= high for low, _, high in found) / len(found)


def test_the_interval_holds_the_true_knee_of_a_simulated_queue() -> None:
    """40 searches here; the slow test below takes 200 on each of three queues."""
    queue = Queue()
    true = queue.knee(SHARE, points=200)
    found = searches(queue, 40)
    assert covered(found, true) >= 0.8
    assert np.mean([load for _, load, _ in found]) == pytest.approx(true, rel=0.06)


@pytest.mark.slow
@pytest.mark.parametrize(
    "queue",
    [
        Queue(),
        Queue(promise_s=0.3, requests=100),
        Queue(slots=1, service_s=0.25, variation=1.0),
    ],
    ids=["four slots", "short points", "one slot, exponential"],
)
def test_the_interval_holds_the_true_knee_in_most_of_200_searches(queue: Queue) -> None:
    true = queue.knee(SHARE)
    found = searches(queue, 200)
    share = covered(found, true)
    widths = sorted(high / low for low, _, high in found)
    print(f"{queue}: knee {true:.3f}, held by {share:.1%}, median width {widths[100]:.2f}")  # noqa: T201
    assert share >= 0.85
    assert np.mean([load for _, load, _ in found]) == pytest.approx(true, rel=0.05)


def test_a_fall_between_two_loads_is_found_where_the_share_crosses() -> None:
    points = [Counted(1.0, 990, 1000), Counted(2.0, 500, 1000), Counted(4.0, 10, 1000)]
    found = find_crossing(points, 0.5)
    assert found is not None
    assert found.value == pytest.approx(2.0, rel=0.02)
    assert found.low <= found.value <= found.high


def test_points_that_do_not_fall_have_no_crossing() -> None:
    assert find_crossing([Counted(1.0, 10, 100), Counted(2.0, 90, 100)], 0.5) is None
    assert find_crossing([Counted(1.0, 10, 100)], 0.5) is None
    assert find_crossing([Counted(1.0, 0, 0), Counted(2.0, 0, 0)], 0.5) is None


@pytest.mark.parametrize(
    ("good", "requests", "low", "high"),
    # R: binom::binom.confint(good, requests, methods="wilson")
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (95, 100, 0.8882, 0.9785)],
)
def test_shares_have_wilsons_interval(good: int, requests: int, low: float, high: float) -> None:
    found = wilson(good, requests)
    assert [found.low, found.high] == pytest.approx([low, high], abs=1e-4)


def test_means_have_students_interval() -> None:
    found = mean_interval([1.0, 2.0, 3.0])
    assert found is not None
    half = 4.303 / 3**0.5
    assert [found.value, found.low, found.high] == pytest.approx([2, 2 - half, 2 + half], abs=1e-3)
    assert mean_interval([]) is None
    alone = mean_interval([7.0])
    assert alone is not None
    assert (alone.low, alone.high) == (7.0, 7.0)
    assert student_t(1000) == pytest.approx(1.962, abs=2e-3)
