"""Sums of money over tokens: exact, and refused where they mean nothing."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from apps.capacity.economics.breaking_even import Ownership, break_even, break_even_tokens
from apps.capacity.economics.rates import (
    MTOK,
    cost_per_mtok,
    exact,
    month_micros,
    tokens_a_month,
)
from apps.capacity.errors import PlanInvalid

BAD = (math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("Infinity"))


def test_a_machine_of_two_dollars_that_writes_a_thousand_tokens_a_second() -> None:
    # 3.6 million tokens an hour, so 2 ÷ 3.6 dollars a million.
    assert cost_per_mtok(2_000_000, 1000) == Fraction(2_000_000 * 10, 36)
    assert cost_per_mtok(2_000_000, 1000, Fraction(2, 5)) == Fraction(2_000_000 * 100, 36 * 4)


def test_a_figure_is_taken_as_it_is_written_and_not_as_its_float() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert cost_per_mtok(36, 0.1) == 100_000
    assert cost_per_mtok(36, 0.1, 0.3) == Fraction(1_000_000, 3)


def test_sums_over_utilisations_do_not_drift() -> None:
    full = cost_per_mtok(2_950_001, 1234.5678)
    parts = [cost_per_mtok(2_950_001, 1234.5678, n / 1000) * n for n in range(1, 1001)]
    assert sum(parts) == 1000 * 1000 * full


@pytest.mark.parametrize("value", BAD)
def test_what_is_no_number_is_refused(value: float | Decimal) -> None:
    for arguments in ((value, 1), (1, value), (1, 1, value)):
        with pytest.raises(PlanInvalid):
            cost_per_mtok(*arguments)
    with pytest.raises(PlanInvalid):
        break_even_tokens(fixed_micros=1, price_micros_per_mtok=value)


@pytest.mark.parametrize("value", [0, -1, -0.5, Fraction(-1, 3)])
def test_no_throughput_and_no_utilisation_have_no_cost(value: float | Fraction) -> None:
    with pytest.raises(PlanInvalid):
        cost_per_mtok(1, value)
    with pytest.raises(PlanInvalid):
        cost_per_mtok(1, 1, value)


def test_an_hour_may_be_free_and_may_not_earn() -> None:
    assert cost_per_mtok(0, 10) == 0
    with pytest.raises(PlanInvalid):
        cost_per_mtok(-1, 10)


def test_absurd_figures_stay_exact() -> None:
    assert cost_per_mtok(10**18, 1e-9) == Fraction(10**18 * MTOK * 10**9, 3600)
    assert cost_per_mtok(1, 10**30) == Fraction(MTOK, 3600 * 10**30)


def test_a_month_has_730_hours() -> None:
    assert month_micros(1_000_000) == 730_000_000
    assert tokens_a_month(1) == 2_628_000


def test_break_even_is_fixed_over_what_a_token_saves() -> None:
    # 730 dollars a month against 5 dollars a million of which 1 is spent anyway.
    found = break_even_tokens(
        fixed_micros=730_000_000,
        price_micros_per_mtok=5_000_000,
        marginal_micros_per_mtok=1_000_000,
    )
    assert found == Fraction(730_000_000, 4)


def test_nothing_is_earned_back_where_the_price_is_no_higher_than_the_marginal_cost() -> None:
    for marginal in (5, 6):
        assert (
            break_even_tokens(
                fixed_micros=1, price_micros_per_mtok=5, marginal_micros_per_mtok=marginal
            )
            is None
        )


def own(**changes: int | Fraction) -> Ownership:
    values = {"machine_micros": 100, "capacity_tokens": 10 * MTOK, **changes}
    return Ownership(**{name: Fraction(value) for name, value in values.items()})


def test_machines_come_in_steps() -> None:
    machine = own(marginal_micros_per_mtok=1)
    assert [machine.machines(n) for n in (0, 1, 10 * MTOK, 10 * MTOK + 1)] == [1, 1, 1, 2]
    assert machine.month_micros(10 * MTOK) == 110
    assert machine.month_micros(10 * MTOK + MTOK) == 200 + 11


def test_one_machine_that_is_large_enough_wins_from_where_its_cost_is_met() -> None:
    found = break_even(own(), price_micros_per_mtok=20)
    assert (found.one_tokens, found.tokens) == (Fraction(5 * MTOK), Fraction(5 * MTOK))
    assert found.machines == 1
    assert not found.is_beyond_one


def test_where_a_full_machine_costs_more_than_the_price_no_volume_wins() -> None:
    found = break_even(own(), price_micros_per_mtok=9)
    assert (found.wins, found.tokens, found.machines) == (False, None, None)
    assert found.is_beyond_one
    assert found.full_micros_per_mtok == 10


def test_a_shared_cost_may_take_several_machines() -> None:
    # A full machine earns 10 × 20 - 100 = 100; the shared 250 take three.
    found = break_even(own(shared_micros=250), price_micros_per_mtok=20)
    assert found.is_beyond_one
    assert found.one_tokens == Fraction(350, 20) * MTOK
    assert (found.machines, found.tokens) == (3, Fraction(550, 20) * MTOK)


@pytest.mark.parametrize("price", [10, 11, 13, 17, 20, 35, 99])
@pytest.mark.parametrize("shared", [0, 40, 333])
def test_break_even_agrees_with_a_walk_over_volumes(price: int, shared: int) -> None:
    machine = own(shared_micros=shared, marginal_micros_per_mtok=2)
    found = break_even(machine, price_micros_per_mtok=price)
    step = MTOK // 4
    wins = [
        volume
        for volume in range(step, 3000 * MTOK // 4, step)
        if machine.month_micros(volume) <= Fraction(price * volume, MTOK)
    ]
    if not wins:
        assert found.tokens is None or found.tokens > 700 * MTOK
        return
    assert found.tokens is not None
    assert 0 <= wins[0] - found.tokens < step
    lost = [v for v in range(step, 3000 * MTOK // 4, step) if v not in set(wins)]
    if found.for_good_tokens is not None and found.for_good_tokens < 700 * MTOK:
        assert all(volume <= found.for_good_tokens for volume in lost)
        assert found.for_good_tokens - lost[-1] <= step
