"""The requests of a point one by one, the gaps between their pieces, charts and exports."""

from __future__ import annotations

import csv
import gzip
import json
import uuid

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

from apps.capacity.load.measures import Record
from apps.capacity.loadtests.plan import Knee
from apps.capacity.models import LoadPoint, LoadTest
from apps.capacity.selectors import newest_knees, whole_test
from apps.capacity.showing.charts import (
    linear_axis,
    rate_chart,
    share_chart,
    spread_axis,
    time_axis,
    time_chart,
)
from apps.capacity.showing.rows import TIMES
from apps.capacity.showing.timelines import (
    READ_MAX,
    WIDTH,
    histogram,
    read_records,
    timeline,
)
from apps.capacity.showing.words import figure, milliseconds
from apps.evals.charts import BOTTOM, LEFT, RIGHT, TOP
from tests.capacity.factories import (
    make_point,
    make_records,
    make_test,
    packed,
)
from tests.cast import Cast, signed_in


def a_record(**changes: object) -> Record:
    values = {
        "number": 0,
        "intended_s": 0.0,
        "sent_s": 0.0,
        "first_s": 1.0,
        "last_s": 2.0,
        "end_s": 2.0,
        "outcome": "complete",
        "pieces_s": (1.0, 1.1, 1.2, 1.9, 2.0),
    }
    return Record.model_validate({**values, **changes})


def test_a_row_waits_from_the_intended_start_then_streams() -> None:
    (lane,) = timeline([a_record()], first=0, rows=10).lanes
    waiting, stream, *stalls = lane.bars
    assert (waiting.x, waiting.width) == (0, WIDTH / 2)
    assert (stream.x, stream.width) == (WIDTH / 2, WIDTH / 2)
    assert [bar.kind for bar in stalls] == ["stall"]
    assert lane.ttft_ms == 1000
    assert lane.longest_gap_ms == pytest.approx(700)
    assert lane.pieces.count("M") == 5


def test_a_request_without_text_is_lost_where_it_broke_off() -> None:
    record = a_record(
        first_s=None, last_s=None, end_s=4.0, outcome="timed_out", error_code="late", pieces_s=()
    )
    (lane,) = timeline([record], first=0, rows=1).lanes
    assert [bar.kind for bar in lane.bars] == ["lost"]
    assert lane.broke
    assert lane.outcome == "timed out"
    assert lane.ttft_ms is None


def test_a_request_that_was_never_sent_has_a_row() -> None:
    record = a_record(
        sent_s=None, first_s=None, last_s=None, end_s=None, outcome="unsent", pieces_s=()
    )
    assert len(timeline([record], first=0, rows=1).lanes) == 1


def test_pieces_that_cannot_be_told_apart_are_one_mark() -> None:
    pieces = tuple(1 + n / 100_000 for n in range(5_000))
    (lane,) = timeline([a_record(last_s=1.05, pieces_s=pieces)], first=0, rows=1).lanes
    assert lane.pieces.count("M") < 30


def test_a_page_holds_the_rows_that_were_asked_for() -> None:
    records = make_records(2.0, requests=60)
    shown = timeline(records, first=50, rows=25)
    assert [lane.record.number for lane in shown.lanes] == list(range(50, 60))
    assert shown.begin_s == 25.0
    assert all(0 <= bar.x <= WIDTH for lane in shown.lanes for bar in lane.bars)


@pytest.mark.parametrize("first", [-5, 10**9])
def test_a_page_beyond_the_requests_is_the_nearest(first: int) -> None:
    assert timeline(make_records(1.0, requests=3), first=first, rows=2).lanes


def test_every_gap_is_in_one_bin() -> None:
    records = make_records(2.0, requests=30)
    gaps = sum(max(0, len(record.pieces_s) - 1) for record in records)
    assert sum(each.count for each in histogram(records)) == gaps


def test_one_stall_in_a_thousand_gaps_is_seen() -> None:
    pieces = (*(n / 100 for n in range(1000)), 12.0)
    last = histogram([a_record(pieces_s=pieces)])[-1]
    assert last.count == 1
    assert last.height > 5


def test_gaps_of_nothing_are_no_histogram() -> None:
    assert histogram([]) == []
    assert histogram([a_record(pieces_s=(1.0,))]) == []
    assert histogram([a_record(pieces_s=(1.0, 1.0))]) == []


@pytest.mark.parametrize(
    "kept",
    [b"", b"not gzip", gzip.compress(b"not json"), gzip.compress(b'{"number": 1}\n'), b"\x1f\x8b"],
)
def test_records_that_cannot_be_read_are_none(kept: bytes) -> None:
    assert read_records(kept) == []


def test_records_that_break_off_are_read_up_to_there() -> None:
    whole = packed(make_records(1.0, requests=200))
    assert 0 <= len(read_records(whole[: len(whole) // 2])) < 200


def test_no_more_requests_are_read_than_can_be_shown() -> None:
    lines = packed([a_record(pieces_s=())] * (READ_MAX + 10))
    assert len(read_records(lines)) == READ_MAX


@pytest.mark.django_db
def test_no_point_of_a_chart_lies_outside_of_it() -> None:
    """Wide intervals, a promise far above, a knee between: all within the plot."""
    whole = whole_test(make_test(loads=(0.01, 0.1, 4.0), repeats=2))
    charts = [each.chart for name in TIMES if (each := time_chart(whole, name))]
    charts += [chart for chart in (rate_chart(whole), share_chart(whole)) if chart]
    assert len(charts) == 6
    for chart in charts:
        for line in chart.lines:
            for point in line.points:
                heights = [point.y, point.low or point.y, point.high or point.y]
                assert all(TOP <= height <= BOTTOM for height in heights)
                assert LEFT <= point.x <= RIGHT
        assert all(LEFT <= mark.at <= RIGHT for mark in chart.marks)
        assert all(TOP <= level.at <= BOTTOM for level in chart.levels)


@pytest.mark.django_db
def test_a_load_without_a_complete_request_is_in_no_latency_chart() -> None:
    test = make_test(with_points=False, knee=None)
    make_point(test, 1.0, records=make_records(1.0, requests=5, failed=5))
    whole = whole_test(test)
    assert time_chart(whole, "ttft") is None
    assert share_chart(whole) is not None


@pytest.mark.parametrize(
    ("values", "logarithmic"), [([1.0, 2.0], False), ([1.0, 100.0], True), ([3.0], False)]
)
def test_an_axis_is_logarithmic_where_its_ends_lie_far_apart(
    values: list[float], logarithmic: bool
) -> None:
    axis = spread_axis(values)
    assert axis.logarithmic is logarithmic
    assert 1 <= len(axis.ticks) <= 8


@pytest.mark.parametrize("values", [[0.0], [1e-9, 1e9], [5.0, 5.0], [0.001]])
def test_axes_hold_their_values_and_have_few_marks(values: list[float]) -> None:
    for axis in (time_axis(values), linear_axis(values)):
        assert axis.low <= max(values) <= axis.high
        assert len(axis.ticks) <= 9


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (2.6, "2.6"),
        (1240.4, "1,240"),
        (0.03125, "0.0312"),
        (100.0, "100"),
        (float("nan"), "–"),
        (float("inf"), "–"),
        (1e-12, "0"),
    ],
)
def test_figures_have_three_digits(value: float, words: str) -> None:
    assert figure(value) == words


def test_a_second_is_a_second() -> None:
    assert milliseconds(999.0) == "999 ms"
    assert milliseconds(1500.0) == "1.5 s"


@pytest.fixture
def olga(cast: Cast) -> Client:
    return signed_in(cast.olga)


def page_of(point: LoadPoint) -> str:
    return reverse("capacity:point", args=[point.test_id, point.number])


@pytest.mark.django_db
def test_two_thousand_requests_are_paged(olga: Client) -> None:
    test = make_test(with_points=False)
    point = make_point(test, 4.0, records=make_records(4.0, requests=2000))
    response = olga.get(f"{page_of(point)}?rows=100&first=1900")
    assertContains(response, "1,901 to 2,000 of 2,000")
    assert response.content.count(b'class="lane"') == 100
    assert len(response.content) < 400_000


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["rows=1000000", "rows=x&first=-1", "first=9999999", "first=٣"])
def test_odd_pages_are_ordinary_ones(olga: Client, query: str) -> None:
    point = make_point(make_test(with_points=False), 1.0)
    response = olga.get(f"{page_of(point)}?{query}")
    assert 1 <= response.content.count(b'class="lane"') <= 100


@pytest.mark.django_db
def test_a_point_whose_requests_were_not_kept_says_what_to_do(olga: Client) -> None:
    point = make_point(make_test(with_points=False), 1.0, keep_records=False)
    assertContains(olga.get(page_of(point)), "run it again with fewer requests a point")


@pytest.mark.django_db
def test_what_the_server_counted_stands_beside(olga: Client) -> None:
    counted = {"prefix_hit_share": 0.5, "queue_mean_ms": 12.3, "of_tomorrow": 1.0}
    point = make_point(make_test(with_points=False), 1.0, server=counted, cached_share=None)
    assertContains(olga.get(page_of(point)), "12.3 ms")
    page = olga.get(reverse("capacity:test", args=[point.test_id]))
    assertContains(page, "took up to 50 % of the prompts’ tokens from its prefix cache, more")


@pytest.mark.django_db
def test_codes_of_errors_are_text(olga: Client) -> None:
    record = a_record(outcome="failed", error_code="<b>x</b>", first_s=None, pieces_s=())
    point = make_point(make_test(with_points=False), 1.0, records=[record])
    assertNotContains(olga.get(page_of(point)), "<b>x</b>")


@pytest.mark.django_db
def test_an_unknown_point_is_not_found(olga: Client) -> None:
    test = make_test(with_points=False)
    assert olga.get(reverse("capacity:point", args=[test.id, 7])).status_code == 404
    assert olga.get(reverse("capacity:point", args=[uuid.uuid4(), 0])).status_code == 404


@pytest.mark.django_db
def test_json_has_the_names_of_vllm(olga: Client) -> None:
    test = make_test(loads=(1.0,), repeats=2)
    told = json.loads(olga.get(reverse("capacity:export_json", args=[test.id])).content)
    assert told["knee"]["load"] == 2.6
    assert [point["request_rate"] for point in told["points"]] == [1.0, 1.0]
    names = {"duration", "completed", "failed", "total_input_tokens", "request_throughput"}
    names |= {"request_goodput", "output_throughput", "mean_ttft_ms", "median_tpot_ms"}
    names |= {"p99_e2el_ms", "p95_itl_ms", "max_concurrent_requests"}
    assert names <= set(told["points"][0])


@pytest.mark.django_db
def test_json_of_a_point_has_each_request(olga: Client) -> None:
    test = make_test(loads=(1.0,), repeats=1)
    url = reverse("capacity:export_json", args=[test.id])
    told = json.loads(olga.get(f"{url}?point=0").content)
    assert len(told["ttfts"]) == len(told["itls"]) == len(told["errors"]) == 40
    for wrong in ("9", "x", "-1", "٣"):
        assert olga.get(f"{url}?point={wrong}").status_code == 404


@pytest.mark.django_db
def test_csv_has_a_line_a_point(olga: Client) -> None:
    test = make_test(loads=(1.0, 2.0), repeats=2, name='a"b;c')
    response = olga.get(reverse("capacity:export_csv", args=[test.id]))
    rows = list(csv.DictReader(response.content.decode().splitlines()))
    assert len(rows) == 4
    point = test.points.get(number=0)
    assert float(rows[0]["ttft_p95_ms"]) == point.figures["ttft"]["p95_ms"]
    assert rows[0]["client_is_trustworthy"] == "True"


@pytest.mark.django_db
def test_the_newest_knee_of_each_server_is_read() -> None:
    make_test(name="old")
    newest = make_test(name="new")
    make_test(name="without", knee=Knee(found=False, reason="stopped"))
    make_test(name="stopped", state=LoadTest.State.CANCELLED)
    assert [whole.test for whole in newest_knees()] == [newest]
