"""The memo: what it recommends, what would reverse it, and which figures are whose."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest

from apps.capacity.economics import selectors
from apps.capacity.economics.breaking_even import break_even
from apps.capacity.economics.charting import MOST_STEPS, month_chart
from apps.capacity.economics.choices import Choices, Hour
from apps.capacity.economics.costing import Costs, compute
from apps.capacity.economics.markdown import escape, memo_markdown
from apps.capacity.economics.measured import Measured
from apps.capacity.economics.memo import Memo, least_busy, least_throughput, write_memo
from apps.capacity.economics.rates import MTOK
from apps.capacity.economics.selectors import read_measured
from apps.capacity.load.types import Target
from apps.capacity.models import ListPrice
from tests.capacity.factories import KNEE, make_client, make_point, make_test

pytestmark = pytest.mark.django_db

TODAY = date(2026, 12, 1)
TYPED = Hour(Fraction(2_000_000), "typed", "typed on the page")


@pytest.fixture
def measured() -> Measured:
    test = make_test(name="Sweep", finished_at=datetime(2026, 11, 30, 12, tzinfo=UTC))
    found = read_measured(test.id)
    assert found is not None
    return found


def an_api(dollars: str, *, as_of: date = TODAY) -> ListPrice:
    micros = int(Decimal(dollars) * 1_000_000)
    price, _ = ListPrice.objects.update_or_create(
        provider="Somebody",
        model="their model",
        as_of=as_of,
        defaults={
            "input_micros_per_mtok": micros,
            "output_micros_per_mtok": micros,
            "source": "their list",
        },
    )
    return price


def costs_of(measured: Measured, dollars: str | None, **changes: object) -> Costs:
    api = an_api(dollars) if dollars else None
    return compute(Choices(measured, TYPED, api=api, **changes))  # type: ignore[arg-type]


def memo_of(costs: Costs) -> Memo:
    return write_memo(costs, today=TODAY)


def test_where_no_volume_wins_it_says_to_pay_by_the_token(measured: Measured) -> None:
    memo = memo_of(costs_of(measured, "0.01"))
    assert memo.recommendation.startswith("Pay by the token: at this price of an hour no volume")
    assert any("more than it can be" in line for line in memo.reverses)


def test_above_break_even_it_says_to_own_and_below_to_pay(measured: Measured) -> None:
    # 428 tokens a second at the knee, 40 % of it: 449.9 million a month, for 1,460 dollars.
    capacity = costs_of(measured, None).planned.capacity_tokens
    assert capacity == Fraction(428) * 730 * 3600 * 2 / 5
    high = memo_of(costs_of(measured, "5", volume_tokens=capacity))
    assert high.recommendation.startswith("Own the machine: at this volume a month costs $")
    low = memo_of(costs_of(measured, "6", volume_tokens=Fraction(10 * MTOK)))
    assert low.recommendation.startswith("Pay by the token for now")
    assert "$1,400.00 a month more" in low.recommendation
    assert any(line.startswith("Volume: 243 million tokens") for line in low.reverses)


def test_without_a_volume_the_threshold_is_the_recommendation(measured: Measured) -> None:
    memo = memo_of(costs_of(measured, "5"))
    assert memo.recommendation.startswith(
        "Pay by the token below 292 million tokens a month; own the machine above."
    )
    assert "No volume was typed, and nothing was booked in these days." in memo.because


def test_without_an_api_it_recommends_nothing(measured: Measured) -> None:
    memo = memo_of(costs_of(measured, None))
    assert memo.recommendation == "Nothing to compare with: choose a managed API."


def test_each_threshold_turns_the_recommendation_round(measured: Measured) -> None:
    """What the memo computes as the turning point is one: at it, both cost the same."""
    volume = Fraction(123_456_789)
    costs = costs_of(measured, "5", volume_tokens=volume)
    own = costs.planned
    even = costs.even
    assert even is not None
    assert even.tokens is not None
    price = Fraction(5_000_000)
    assert own.month_micros(even.tokens) == price * even.tokens / MTOK
    needed = least_busy(costs)
    assert needed is not None
    for share, wins in ((needed, True), (needed * Fraction(999, 1000), False)):
        found = costs_of(measured, "5", busy=share).even
        assert found is not None
        assert found.wins is wins


def test_it_says_whose_each_figure_is(measured: Measured) -> None:
    kinds = {fact.name: fact.kind_words for fact in memo_of(costs_of(measured, "5")).facts}
    assert kinds["Highest load that keeps the promises"] == "measured here"
    assert kinds["An hour of the machine"] == "typed"
    assert kinds["A million tokens written, all cost on them"] == "computed"
    assert kinds["Somebody (their model), a million tokens"] == "list figure"


def test_a_measured_figure_names_its_run_load_and_counts(measured: Measured) -> None:
    fact = memo_of(costs_of(measured, "5")).facts[0]
    assert fact.value == "2 requests a second"
    for words in ("Sweep", "30 November 2026", str(measured.test.id)[:8], "3 repeats", "120"):
        assert words in fact.source


@pytest.mark.parametrize(("as_of", "says"), [(date(2026, 9, 2), False), (date(2026, 9, 1), True)])
def test_a_list_figure_older_than_ninety_days_says_so(
    measured: Measured, as_of: date, says: bool
) -> None:
    costs = compute(Choices(measured, TYPED, api=an_api("5", as_of=as_of)))
    source = memo_of(costs).facts[-1].source
    assert ("days old: check it" in source) is says


def test_a_model_that_nobody_called_comparable_is_an_assumption(measured: Measured) -> None:
    costs = costs_of(measured, "5")
    memo = memo_of(costs)
    assert "nobody has said that the answers are alike" in memo.recommendation
    assert any("answers as well as" in line for line in memo.assumptions)
    ListPrice.objects.filter(provider="Somebody").update(comparable_to=measured.model)
    api = ListPrice.objects.get(provider="Somebody")
    memo = memo_of(compute(Choices(measured, TYPED, api=api)))
    assert "answers" not in memo.recommendation
    assert not any("answers as well as" in line for line in memo.assumptions)


@pytest.mark.parametrize("volume", [None, 100_000_000, 460_000_000, 7_000_000_000])
@pytest.mark.parametrize("shared", [0, 900_000_000])
def test_below_the_least_throughput_owning_loses(
    measured: Measured, volume: int | None, shared: int
) -> None:
    price = Fraction(5_000_000)
    tokens = None if volume is None else Fraction(volume)
    costs = costs_of(measured, "5", volume_tokens=tokens, shared_micros=Fraction(shared))
    own = costs.planned
    needed = least_throughput(costs, own, tokens, price)
    if needed is None:
        assert volume is not None
        assert price * volume / MTOK - shared < own.machine_micros
        return
    month_s = 730 * 3600 * costs.choices.busy
    enough = replace(own, capacity_tokens=needed * month_s)
    less = replace(own, capacity_tokens=needed * month_s * Fraction(999, 1000))
    if tokens is None:
        assert break_even(
            replace(enough, shared_micros=Fraction(0)), price_micros_per_mtok=price
        ).wins
        assert not break_even(less, price_micros_per_mtok=price).wins
    else:
        assert enough.month_micros(tokens) <= price * tokens / MTOK
        assert less.month_micros(tokens) > price * tokens / MTOK


@pytest.mark.parametrize("hour", [0, 1, 10**18])
@pytest.mark.parametrize("dollars", [None, "0", "0.000001", "1000000"])
@pytest.mark.parametrize("volume", [None, Fraction(1, 10**6), Fraction(10**30)])
@pytest.mark.parametrize("busy", [Fraction(1, 1000), Fraction(1)])
def test_absurd_figures_make_a_memo_and_a_chart(
    measured: Measured, hour: int, dollars: str | None, volume: Fraction | None, busy: Fraction
) -> None:
    endpoint = ListPrice.objects.filter(offer=ListPrice.Offer.ENDPOINT).first()
    choices = Choices(
        measured,
        Hour(Fraction(hour), "typed", "typed"),
        api=an_api(dollars) if dollars else None,
        endpoint=endpoint,
        busy=busy,
        volume_tokens=volume,
        shared_micros=Fraction(10**15),
        marginal_micros_per_mtok=Fraction(7, 3),
    )
    costs = compute(choices)
    assert memo_markdown(memo_of(costs))
    month = month_chart(costs)
    assert len(month.chart.lines) == (3 if dollars else 2)
    assert all(len(line.points) <= 2 * MOST_STEPS + 2 for line in month.chart.lines)
    assert all(0 <= tick.at <= 100 for tick in month.chart.x_ticks + month.chart.y_ticks)


def test_the_chart_and_its_table_say_the_same(measured: Measured) -> None:
    costs = costs_of(measured, "5", volume_tokens=Fraction(900 * MTOK))
    month = month_chart(costs)
    assert {mark.text for mark in month.chart.marks} == {"owning wins", "now"}
    now = next(row for row in month.rows if row.words == "now")
    assert (now.own, now.machines) == (Fraction(3 * 1_460_000_000), 3)
    assert now.api == 4_500_000_000
    even = next(row for row in month.rows if row.words == "owning wins from here")
    assert even.own == even.api


def test_markdown_holds_everything_that_the_page_has(measured: Measured) -> None:
    memo = memo_of(costs_of(measured, "5"))
    text = memo_markdown(memo)
    for line in (memo.recommendation, *memo.because, *memo.reverses, *memo.assumptions):
        assert escape(line) in text
    for fact in memo.facts:
        assert f"| {escape(fact.name)} | {escape(fact.value)} |" in text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b", "a\\|b"),
        ("# head\n- item", "\\# head - item"),
        ("<img src=x>", "\\<img src=x\\>"),
        ("[x](javascript:y)", "\\[x\\](javascript:y)"),
        ("a\\b&amp;", "a\\\\b\\&amp;"),
        ("日本\u2028語", "日本 語"),
    ],
)
def test_markup_in_names_is_text(text: str, written: str) -> None:
    assert escape(text) == written


def test_costs_have_the_knees_interval(measured: Measured) -> None:
    costs = costs_of(measured, "5")
    full = costs.rows[0]
    assert full.all_on_output is not None
    assert full.all_on_output.low is not None
    assert full.all_on_output.high is not None
    assert full.all_on_output.low <= full.all_on_output.value <= full.all_on_output.high
    # A throughput at 2.2 and at 3.1 requests a second, between the ones measured at 2 and at 4.
    assert measured.least is not None
    assert measured.most is not None
    assert measured.least.output_per_s < measured.most.output_per_s


def test_what_is_read_and_written_pays_for_the_whole_hour(measured: Measured) -> None:
    split = measured.by_time
    assert split is not None
    made = measured.made
    paid = split.input_per_mtok(2_000_000) * made.input_per_s
    paid += split.output_per_mtok(2_000_000) * made.output_per_s
    assert paid * 3600 / MTOK == 2_000_000
    assert split.seconds(made.input_per_s, made.output_per_s) == 1


def test_a_throughput_that_falls_beyond_the_knee_makes_costs_uncertain(measured: Measured) -> None:
    """A full machine writes less than a busy one: the interval holds what is within it."""
    test = make_test(knee=KNEE.model_copy(update={"load_low": 2.0}), with_points=False)
    for load, output_per_s in ((1.0, 20.0), (2.0, 38.0), (2.5, 50.0), (4.0, 10.0)):
        make_point(test, load, output_per_s=output_per_s)
    found = read_measured(test.id)
    assert found is not None
    assert found.least is not None
    assert found.most is not None
    # At 3.1, two fifths of the way from 50 to 10.
    assert found.least.output_per_s == 34
    assert found.most.output_per_s == 50


def test_a_late_generators_points_count_only_where_there_are_no_others() -> None:
    test = make_test(with_points=False)
    late = make_client(is_trustworthy=False)
    make_point(test, 1.0, output_per_s=99.0, client=late)
    make_point(test, 2.0, output_per_s=38.0, requests=7, failed=1)
    make_point(test, 2.0, output_per_s=1.0, requests=9, client=late)
    make_point(test, 2.0, output_per_s=1.0, requests=9, stopped=True)
    found = read_measured(test.id)
    assert found is not None
    assert (found.requests, found.failed) == (7, 1)
    assert found.alone_load == 1.0


def test_a_server_that_answers_at_once_has_no_cost() -> None:
    test = make_test(target=Target(kind="null", pace_ms=1.0))
    assert read_measured(test.id) is None
    assert selectors.tests_with_a_knee() == []
