"""The plan's arithmetic: what is true of every plan, and figures computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from random import Random

import pytest

from apps.capacity.arithmetic import BF16, FP8, INT4, KV8, KV16, Chip, Shape
from apps.capacity.planning.inputs import (
    Assumptions,
    Demand,
    Draft,
    HourPrice,
    ListedPrice,
    PlanInputs,
    Promises,
    Tokens,
)
from apps.capacity.planning.money import api_request_micros
from apps.capacity.planning.plan import Plan, make_plan
from apps.capacity.planning.saying import digits, say_ms, say_value
from apps.capacity.planning.serving import Copy, serve

LLAMA_8B = Shape(
    "Llama 8B", 32, 4096, 32, 8, 128, 8_030_261_248, 8_030_261_248, 131_072, vocabulary=128_256
)
LLAMA_70B = Shape(
    "Llama 70B", 80, 8192, 64, 8, 128, 70_553_706_496, 70_553_706_496, 131_072, vocabulary=128_256
)
TINY = Shape("Tiny", 16, 2048, 32, 8, 64, 1_235_814_400, 1_235_814_400, 131_072)
H100 = Chip("H100", 80 * 10**9, 3350, 989, 1979, 1979)
A100 = Chip("A100", 80 * 10**9, 2039, 312, None, 624)
A10G = Chip("A10G", 24 * 10**9, 600, 70)
DEMAND = Demand(Tokens.typed(2000, 4000), Tokens.typed(250, 600), peak_per_s=2, a_day=50_000)
HOUR = HourPrice("somebody", 2_000_000, 3_000_000, "a list", date(2026, 5, 1))
API = ListedPrice("an API", 100_000, 200_000, 50_000, "a list", date(2026, 5, 1))
PLAIN = PlanInputs(
    LLAMA_8B, H100, 1, BF16, KV16, 8192, DEMAND, Promises(1000, 50), hours=[HOUR], listed=[API]
)


def here(plan: Plan) -> list[str]:
    return [rung.advice for rung in plan.ladder.rungs if rung.is_here]


def demand(prompt: float, output: float, **more: float) -> Demand:
    return replace(
        DEMAND, prompt=Tokens.typed(prompt, prompt), output=Tokens.typed(output, output), **more
    )


def test_a_deviation_follows_from_a_mean_and_a_long_one() -> None:
    assert Tokens.typed(100, 100).stdev == 0
    assert Tokens.typed(100, 264.5).stdev == pytest.approx(100)


def test_the_time_of_a_request_is_its_prefill_and_its_share_of_the_steps() -> None:
    """By hand: 2 × 8.03e9 × 2,000 ÷ (989e12 × 0.5) = 64.96 ms, and attention; a step of one
    reads 16.06 GB and 2,125 tokens of KV in 16.34 ÷ 3,350 = 4.88 ms, ÷ 0.6 = 8.13 ms."""
    copy = Copy(PLAIN)
    assert copy.prefill_s * 1000 == pytest.approx(67.1, abs=0.1)
    assert copy.step_s(1) * 1000 == pytest.approx(8.13, abs=0.01)
    assert copy.cost_s(1) == pytest.approx(copy.prefill_s + 250 * copy.step_s(1))
    assert copy.per_s(1) == pytest.approx(0.7 / copy.cost_s(1))


def test_a_mean_load_keeps_the_batch_that_it_was_computed_with() -> None:
    """Little's law again: a copy that is busy all the time has as many answers under way as its
    batch, or the formulas of `serving` contradict each other."""
    full = replace(PLAIN, assumptions=Assumptions(utilisation=1.0))
    copy = Copy(full)
    for batch in (1, 8, 64):
        writing_s = full.demand.output.mean * copy.tpot_s(batch)
        assert copy.per_s(batch) * writing_s == pytest.approx(batch)


def test_the_batch_is_the_largest_that_keeps_every_promise() -> None:
    load = serve(PLAIN)
    copy = Copy(PLAIN)
    assert load.limit == "tpot"
    assert copy.broken(load.batch) is None
    assert copy.broken(load.batch + 1) == "tpot"
    assert load.tpot_ms.value <= 50


@pytest.mark.parametrize(
    ("promises", "limit"),
    [
        (Promises(ttft_ms=10), "ttft"),
        (Promises(tpot_ms=1), "tpot"),
        (Promises(e2e_ms=100), "e2e"),
    ],
)
def test_a_promise_that_an_idle_machine_breaks_leaves_nothing(
    promises: Promises, limit: str
) -> None:
    plan = make_plan(replace(PLAIN, promises=promises))
    assert not plan.load.carries
    assert plan.load.limit == limit
    assert plan.load.per_s.value == 0
    assert plan.fleet is None
    assert plan.money is None
    assert "out" in plan.choice.title


def test_without_promises_memory_or_the_engine_limits() -> None:
    free = replace(PLAIN, promises=Promises())
    assert serve(free).limit == "memory"
    assert serve(replace(free, assumptions=Assumptions(most_batch=8))).limit == "engine"
    assert serve(replace(free, assumptions=Assumptions(most_batch=8))).batch == 8


def test_machines_are_as_many_as_the_peak_takes() -> None:
    one = serve(PLAIN).per_s.value
    for times, machines in ((0.5, 1), (1, 1), (1.01, 2), (7.5, 8)):
        asked = replace(PLAIN, demand=replace(DEMAND, peak_per_s=one * times))
        fleet = make_plan(asked).fleet
        assert fleet is not None
        assert fleet.machines.value == machines
        assert fleet.busy.value <= 70 + 1e-6


def test_people_in_flight_follow_littles_law() -> None:
    plan = make_plan(PLAIN)
    assert plan.fleet is not None
    stay_s = (
        plan.load.prefill_ms.value + plan.load.step_ms.value + 250 * plan.load.tpot_ms.value
    ) / 1000
    assert plan.fleet.in_flight.value == pytest.approx(2 * stay_s)
    assert plan.fleet.tokens_in_flight.value == pytest.approx(2 * stay_s * 2125)
    room = plan.sizing.fit.cached_tokens.value
    assert plan.fleet.cache_used.value == pytest.approx(200 * stay_s * 2125 / room)


def test_reuse_of_prefixes_saves_its_share_of_reading() -> None:
    half = replace(PLAIN, demand=replace(DEMAND, prefix_reuse=0.5))
    gain = next(g for g in make_plan(half).gains if g.name == "Prefix cache")
    assert gain.value is not None
    assert gain.value.value > 1
    nothing = next(g for g in make_plan(PLAIN).gains if g.name == "Prefix cache")
    assert nothing.value is None


def test_speculation_is_measured_or_computed_and_says_when_it_backfires() -> None:
    def gain(draft: Draft | None, batch: int = 256) -> object:
        asked = replace(
            PLAIN,
            shape=LLAMA_70B,
            gpus=8,
            draft=draft,
            promises=Promises(),
            demand=demand(50, 50),
            assumptions=Assumptions(most_batch=batch),
        )
        return next(g for g in make_plan(asked).gains if g.name == "Speculative decoding")

    assert gain(None).value is None  # type: ignore[attr-defined]
    assert "Measure" in gain(Draft(TINY)).verdict  # type: ignore[attr-defined]
    perfect, bad = gain(Draft(TINY, 4, 1.0), 8), gain(Draft(TINY, 4, 0.01), 8)
    assert 4 < perfect.value.value <= 5  # type: ignore[attr-defined]
    assert bad.value.value < 1  # type: ignore[attr-defined]
    assert "come free" in gain(Draft(TINY), 8).verdict  # type: ignore[attr-defined]
    assert "cost time" in gain(Draft(TINY), 256).verdict  # type: ignore[attr-defined]
    slower = gain(Draft(TINY, 4, 0.9), 256)
    assert slower.value.value < gain(Draft(TINY, 4, 0.9), 8).value.value  # type: ignore[attr-defined]


def test_full_memory_asks_for_a_smaller_kv_cache() -> None:
    many = Assumptions(most_batch=10_000)
    asked = replace(PLAIN, promises=Promises(), demand=demand(500, 2000), assumptions=many)
    plan = make_plan(asked)
    assert plan.load.limit == "memory"
    assert here(plan) == ["Keep the KV cache in 8 bits: twice as many tokens in the same memory."]
    gains = [rung.gain.value for rung in plan.ladder.rungs if rung.gain]
    assert gains[0] == max(gains)
    eased = make_plan(replace(plan.inputs, kv=KV8))
    assert eased.load.per_s.value / plan.load.per_s.value == pytest.approx(gains[0])


def test_slow_writing_asks_for_smaller_weights() -> None:
    # A promise that a batch of some answers keeps: the weights are most of what a step reads.
    asked = replace(PLAIN, promises=Promises(tpot_ms=9), demand=demand(50, 500))
    plan = make_plan(asked)
    assert plan.load.limit == "tpot"
    (advice,) = here(plan)
    assert "4 bits" in advice
    gains = [rung.gain.value for rung in plan.ladder.rungs if rung.gain]
    assert gains[1] == max(gains)


def test_slow_reading_asks_for_a_format_that_the_chip_multiplies_faster() -> None:
    reading = replace(PLAIN, promises=Promises(ttft_ms=2000), demand=demand(6000, 20))
    for chip, rung in ((H100, "FP8"), (A100, "INT8")):
        (advice,) = here(make_plan(replace(reading, chip=chip)))
        assert rung in advice
    lacking = make_plan(replace(reading, chip=A10G))
    (rung_here,) = [rung for rung in lacking.ladder.rungs if rung.is_here]
    assert rung_here.gain is None
    assert "A10G supports neither" in rung_here.why_not
    (there,) = [r for r in make_plan(replace(reading, precision=FP8)).ladder.rungs if r.is_here]
    assert there.why_not == "It does so already."


def test_a_rung_that_gains_more_than_the_bottlenecks_own_is_named() -> None:
    both = replace(PLAIN, shape=LLAMA_70B, gpus=8, promises=Promises(tpot_ms=20))
    plan = make_plan(replace(both, demand=demand(274, 35)))
    (advice,) = here(plan)
    assert "4 bits" in advice
    assert "FP8" in plan.ladder.larger
    assert make_plan(PLAIN).ladder.larger == ""


def test_four_bit_weights_gain_nothing_for_reading() -> None:
    reading = replace(PLAIN, promises=Promises(), demand=demand(6000, 2))
    four = replace(reading, precision=INT4)
    assert serve(four).prefill_ms.value == pytest.approx(serve(reading).prefill_ms.value)


def test_costs_are_those_of_the_hours() -> None:
    plan = make_plan(replace(PLAIN, assumptions=Assumptions(overhead=0.0)))
    assert plan.money is not None
    (own,) = plan.money.own
    assert own.month[0].value == 2_000_000 * 730
    assert own.month[1].value == 3_000_000 * 730
    month_tokens = 50_000 * 365 / 12 * 250
    assert own.per_mtok_mean[0].value == pytest.approx(1_460_000_000 / month_tokens * 1e6)
    assert own.per_mtok_full[0].value < own.per_mtok_mean[0].value
    (api,) = plan.money.apis
    each = (2000 * 100_000 + 250 * 200_000) / 1e6
    assert api_request_micros(DEMAND, API) == each
    assert api.month.value == pytest.approx(each * 50_000 * 365 / 12)


def test_reused_tokens_cost_what_the_api_takes_for_cached_ones() -> None:
    half = replace(DEMAND, prefix_reuse=0.5)
    each = (1000 * 100_000 + 1000 * 50_000 + 250 * 200_000) / 1e6
    assert api_request_micros(half, API) == each


def test_owning_breaks_even_where_both_cost_the_same() -> None:
    dear = replace(API, input_micros_per_mtok=2_000_000, output_micros_per_mtok=4_000_000)
    plan = make_plan(replace(PLAIN, listed=[dear]))
    assert plan.money is not None
    even = plan.money.break_even
    assert even is not None
    assert even.low is not None
    at = replace(PLAIN, listed=[dear], demand=replace(DEMAND, a_day=even.low.value))
    again = make_plan(at).money
    assert again is not None
    assert again.own[0].month[0].value == pytest.approx(again.apis[0].month.value, rel=1e-6)


def test_the_choice_turns_with_the_demand_and_says_where() -> None:
    dear = replace(API, input_micros_per_mtok=2_000_000, output_micros_per_mtok=4_000_000)
    much = make_plan(replace(PLAIN, listed=[dear]))
    assert much.choice.title.startswith("Own GPUs cost least")
    little = make_plan(
        replace(PLAIN, listed=[dear], demand=replace(DEMAND, a_day=100, peak_per_s=0.01))
    )
    assert little.choice.title.startswith("Buy: a managed API")
    for plan in (much, little):
        assert any("requests a day" in words for words in plan.choice.reverses)
        assert any("load test" in words for words in plan.choice.reverses)


def test_an_endpoint_that_costs_least_is_named() -> None:
    ends = [API, replace(API, label="an endpoint", hour_micros=1)]
    plan = make_plan(replace(PLAIN, listed=ends))
    assert plan.choice.title.startswith("Buy: a managed endpoint")


def test_owning_that_never_wins_says_at_what_price_of_an_hour_it_would() -> None:
    cheap = replace(API, input_micros_per_mtok=1000, output_micros_per_mtok=1000)
    plan = make_plan(replace(PLAIN, listed=[cheap]))
    assert plan.money is not None
    assert plan.money.break_even is not None
    assert plan.money.break_even.low is None
    assert any("or less for a GPU's hour" in words for words in plan.choice.reverses)


@pytest.mark.parametrize(
    ("hours", "listed", "words"),
    [
        ([], [API], "No choice can be computed yet"),
        ([HOUR], [], "whether buying costs less is open"),
        ([], [], "No choice can be computed yet"),
    ],
)
def test_a_choice_without_prices_says_what_is_lacking(
    hours: list[HourPrice], listed: list[ListedPrice], words: str
) -> None:
    plan = make_plan(replace(PLAIN, hours=hours, listed=listed))
    assert words in plan.choice.title
    assert plan.choice.lacking


def test_every_recommendation_says_what_would_reverse_it() -> None:
    for inputs in (PLAIN, replace(PLAIN, shape=LLAMA_70B), replace(PLAIN, precision=INT4, kv=KV8)):
        plan = make_plan(inputs)
        assert all(gain.reverses and gain.backfires for gain in plan.gains)
        assert all(rung.reverses for rung in plan.ladder.rungs)
        assert plan.choice.reverses


def test_plans_of_all_kinds_are_sound() -> None:
    draw = Random(7)  # noqa: S311 - not for secrets
    for _ in range(150):
        asked = replace(
            PLAIN,
            shape=draw.choice([LLAMA_8B, LLAMA_70B, TINY]),
            chip=draw.choice([H100, A100, A10G]),
            gpus=draw.choice([1, 2, 3, 4, 8]),
            precision=draw.choice([BF16, FP8, INT4]),
            kv=draw.choice([KV16, KV8]),
            context_tokens=draw.choice([1, 2048, 131_072]),
            demand=Demand(
                Tokens.typed(*sorted(10 ** draw.uniform(0, 5) for _ in range(2))),
                Tokens.typed(*sorted(10 ** draw.uniform(0, 4) for _ in range(2))),
                peak_per_s=10 ** draw.uniform(-4, 4),
                a_day=10 ** draw.uniform(0, 8),
                prefix_reuse=draw.choice([0, 0.3, 0.99]),
            ),
            promises=Promises(*(draw.choice([None, 10 ** draw.uniform(0, 5)]) for _ in range(3))),
            draft=draw.choice([None, Draft(TINY), Draft(TINY, 3, 0.6)]),
        )
        plan = make_plan(asked)
        figures = [getattr(plan.load, name) for name in ("tpot_ms", "ttft_ms", "e2e_ms", "per_s")]
        figures += [gain.value for gain in plan.gains if gain.value]
        assert all(math.isfinite(f.value) and f.value >= 0 for f in figures)
        assert plan.load.carries == (plan.load.per_s.value > 0)
        if plan.fleet is not None:
            assert plan.load.batch <= plan.load.memory_batch
            assert plan.fleet.busy.value <= 70 + 1e-6
            assert plan.fleet.cache_used.value <= 100 + 1e-6


@pytest.mark.parametrize(
    ("value", "words"),
    [(6.11, "6.11"), (25.2, "25.2"), (1528.4, "1,530"), (0.0332, "0.0332"), (-73.1, "−73.1")],
)
def test_figures_are_said_in_three_digits(value: float, words: str) -> None:
    assert digits(value) == words


def test_units_are_those_that_people_read() -> None:
    assert say_ms(49.92) == "49.9\N{NO-BREAK SPACE}ms"
    assert say_ms(26_798) == "26.8\N{NO-BREAK SPACE}s"
    assert say_value(131_072, "bytes") == "131,072 bytes"
    assert say_value(1.607e10, "bytes") == "16.1\N{NO-BREAK SPACE}GB"
    assert say_value(1_460_000_000, "micros a month") == "$1,460.00 a month"
