"""The load tests' pages: what they say of every kind of test, and who may see them."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

from apps.capacity.load.types import Lengths, Promises, Workload
from apps.capacity.loadtests.plan import Knee
from apps.capacity.models import LoadTest
from tests.capacity.factories import make_client, make_point, make_records, make_test
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db

HOSTILE = '<script>alert("x")</script> & "quotes" '
NEVER = Knee(found=False, reason="never_kept", arrivals="poisson")


@pytest.fixture
def olga(cast: Cast) -> Client:
    return signed_in(cast.olga)


def page_of(test: LoadTest) -> str:
    return reverse("capacity:test", args=[test.id])


def test_the_overview_says_what_to_do_where_nothing_was_measured(olga: Client) -> None:
    response = olga.get(reverse("capacity:home"))
    assertContains(response, "Nothing was measured yet")
    assertContains(response, reverse("capacity:test_new"))


def test_the_overview_answers_from_the_newest_knee(olga: Client) -> None:
    test = make_test()
    response = olga.get(reverse("capacity:home"))
    assertContains(response, page_of(test))
    assertContains(response, "Up to about 2.6 requests a second (95 % interval 2.2 to 3.1)")
    # 80,000 micros ÷ (3,600 s × 38 tokens/s) × 1,000,000
    assertContains(response, "$0.585")


def test_the_overview_gives_no_cost_without_the_price_of_an_hour(olga: Client) -> None:
    make_test(conditions={"hour_micros": None})
    response = olga.get(reverse("capacity:home"))
    assertContains(response, "the price of an hour of that machine was not given")


def test_a_running_test_is_on_the_overview(olga: Client) -> None:
    progress = {"purpose": "sweep", "load": 2.0, "repeat": 0, "done": 3, "of": 12}
    make_test(state="running", knee=None, progress=progress, name="Night run", with_points=False)
    response = olga.get(reverse("capacity:home"))
    assertContains(response, "Night run")
    assertContains(response, "3 of about 12 points")


def test_the_list_says_what_to_do_where_it_is_empty(olga: Client) -> None:
    assertContains(olga.get(reverse("capacity:tests")), "Measure for the first time")


def test_the_list_has_each_test_with_its_knee_and_conditions(olga: Client) -> None:
    make_test(name="First")
    make_test(name="Second", knee=NEVER)
    make_test(name="Third", state="failed", error_code="target_down", with_points=False, knee=None)
    response = olga.get(reverse("capacity:tests"))
    for words in ("First", "Second", "Third", "2.2 to 3.1", "target_down", "llama.cpp"):
        assertContains(response, words)


def test_a_test_says_its_knee_what_breaks_first_and_under_which_conditions(olga: Client) -> None:
    response = olga.get(page_of(make_test()))
    assertContains(response, "at least 95 % of all requests have their first token within 600 ms")
    assertContains(response, "What breaks first is the promise about the first token")
    assertContains(response, "Q8_0")
    assertContains(response, "made-up prompts of 200 ± 40 tokens")


def test_charts_mark_the_knee_its_interval_and_the_promise(olga: Client) -> None:
    html = olga.get(page_of(make_test())).content.decode()
    assert html.count('class="mark-line"') >= 4
    assert html.count('class="band"') >= 4
    assert "promised: 600 ms" in html
    assert "promised: 40 ms" in html


def test_every_load_has_its_count_its_failures_and_its_interval(olga: Client) -> None:
    test = make_test(with_points=False)
    for repeat in range(3):
        make_point(test, 1.0, repeat=repeat, records=make_records(1.0, failed=4, seed=repeat))
    response = olga.get(page_of(test))
    assertContains(response, '<td class="num">120</td>', html=True)
    assertContains(response, "10%" if False else "10\N{NO-BREAK SPACE}%")
    assertContains(response, "http_503")
    assert response.context["whole"].rows[0].times["ttft"]["p95_ms"].low is not None


def test_one_repeat_has_no_interval(olga: Client) -> None:
    test = make_test(loads=(1.0,), repeats=1)
    response = olga.get(page_of(test))
    assert response.context["whole"].rows[0].times["ttft"]["p95_ms"].low is None
    assertContains(response, "1 repeat")


def test_a_late_generator_is_a_warning(olga: Client) -> None:
    test = make_test(with_points=False)
    make_point(test, 1.0, client=make_client(lag_p99_ms=45.0, is_trustworthy=False))
    response = olga.get(page_of(test))
    assertContains(response, "The load generator was late or busy at 1 of 1 points")
    assertContains(response, "Generator late")


@pytest.mark.parametrize(("prefix", "warned"), [(0, True), (64, False)])
def test_cache_hits_are_a_warning_unless_they_are_what_is_studied(
    olga: Client, prefix: int, warned: bool
) -> None:
    workload = Workload(
        kind="synthetic",
        prompt=Lengths(mean=200),
        output=Lengths(mean=20),
        shared_prefix_tokens=prefix,
    )
    test = make_test(with_points=False, workload=workload)
    make_point(test, 1.0, cached_share=0.25)
    response = olga.get(page_of(test))
    check = assertContains if warned else assertNotContains
    check(response, "although no two prompts begin alike")
    assertContains(response, "25\N{NO-BREAK SPACE}%")


def test_a_share_of_exactly_one_percent_is_no_warning(olga: Client) -> None:
    test = make_test(with_points=False)
    make_point(test, 1.0, cached_share=0.01)
    assertNotContains(olga.get(page_of(test)), "although no two prompts begin alike")


def test_a_load_without_one_complete_request_is_shown_as_such(olga: Client) -> None:
    test = make_test(with_points=False, knee=NEVER)
    make_point(test, 1.0, records=make_records(1.0, requests=10, failed=10))
    response = olga.get(page_of(test))
    assertContains(response, "not one of 10 requests was complete, most with http_503")
    assertContains(response, "No knee: not even the lowest load")
    assertContains(response, "10 of 10 requests fail")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("always_kept", "lies somewhere above"),
        ("stopped", "was stopped before"),
        ("out_of_time", "ran out before"),
        ("untrustworthy", "was late or busy"),
        ("another", "another"),
    ],
)
def test_why_there_is_no_knee(olga: Client, reason: str, words: str) -> None:
    test = make_test(knee=Knee(found=False, reason=reason))
    assertContains(olga.get(page_of(test)), words)


def test_a_sweep_without_promises_claims_neither_knee_nor_goodness(olga: Client) -> None:
    test = make_test(mode="sweep", promises=Promises(), knee=None, with_points=False)
    make_point(test, 1.0, good=None, good_share=None, goodput_per_s=None, keeps_promises=None)
    response = olga.get(page_of(test))
    assertContains(response, "no knee was looked for")
    assertContains(response, "none given")


@pytest.mark.parametrize("state", ["waiting", "running"])
def test_an_unfinished_test_asks_again_and_can_be_stopped(olga: Client, state: str) -> None:
    progress = {"purpose": "knee", "load": 2.83, "repeat": 1, "done": 14, "of": 20, "left_s": 90}
    test = make_test(state=state, knee=None, progress=progress)
    response = olga.get(page_of(test))
    assertContains(response, 'hx-trigger="every 2s"')
    assertContains(response, reverse("capacity:stop_test", args=[test.id]))
    if state == "running":
        assertContains(response, "the search for the knee, 2.83 requests a second, repeat 2")
        assertContains(response, "about 1 min 30 s left")


def test_the_part_of_a_test_that_has_ended_asks_for_the_whole_page(olga: Client) -> None:
    state = reverse("capacity:test_state", args=[make_test().id])
    assert olga.get(state)["HX-Refresh"] == "true"


def test_the_part_of_a_running_test_is_no_whole_page(olga: Client) -> None:
    test = make_test(state="running", knee=None)
    response = olga.get(reverse("capacity:test_state", args=[test.id]))
    assert "HX-Refresh" not in response
    assertNotContains(response, "<html")


def test_figures_come_again_only_where_there_are_more(olga: Client) -> None:
    test = make_test(state="running", knee=None, loads=(1.0,), repeats=2)
    state = reverse("capacity:test_state", args=[test.id])
    assertNotContains(olga.get(f"{state}?points=2"), 'id="test-figures"')
    for known in ("1", "", "x"):
        response = olga.get(f"{state}?points={known}")
        assertContains(response, 'id="test-figures" class="stack loose" hx-swap-oob="true"')


def test_why_a_test_failed_is_said_in_words(olga: Client) -> None:
    result = {"message": "Nobody answers at <127.0.0.1:9>."}
    test = make_test(state="failed", error_code="target_down", knee=None, result=result)
    assertContains(olga.get(page_of(test)), "Nobody answers at &lt;127.0.0.1:9&gt;.")


@pytest.mark.parametrize("ended", ["out_of_time", "out_of_requests"])
def test_a_plan_that_was_cut_short_says_so(olga: Client, ended: str) -> None:
    test = make_test(result={"ended": ended})
    assertContains(olga.get(page_of(test)), "Not all of the plan was done")


def test_a_failed_test_says_why_and_keeps_what_it_measured(olga: Client) -> None:
    test = make_test(state="failed", error_code="target_down", knee=None, loads=(1.0,))
    response = olga.get(page_of(test))
    assertContains(response, "target_down")
    assertContains(response, "What was measured before is below")
    assertContains(response, "Time to the first token")


def test_a_test_that_measured_nothing_says_so(olga: Client) -> None:
    test = make_test(state="cancelled", knee=None, with_points=False)
    assertContains(olga.get(page_of(test)), "so there are no figures")


def test_names_are_text_whatever_they_hold(olga: Client) -> None:
    test = make_test(
        name=HOSTILE * 4,
        conditions={"machine": HOSTILE, HOSTILE: HOSTILE, "engine": "x" * 5000},
    )
    again = make_test(rerun_of=test)
    for path in (
        page_of(test),
        page_of(again),
        reverse("capacity:tests"),
        reverse("capacity:home"),
        reverse("capacity:point", args=[test.id, 0]),
    ):
        assertNotContains(olga.get(path), "<script>alert")


@pytest.mark.parametrize(
    "broken",
    [
        {"plan": {}},
        {"plan": {"mode": "?"}},
        {"plan": []},
        {"target": "x"},
        {"workload": {"kind": None}},
        {"conditions": ["a"]},
        {"conditions": {"gpus": 0, "hour_micros": "much", "nested": {"a": [1]}}},
        {"result": []},
        {"result": {"knee": {"found": "perhaps"}}},
        {"progress": [1]},
        {"progress": {"of": -1, "done": "x", "left_s": 1e400, "load": True}},
    ],
)
@pytest.mark.parametrize("state", ["done", "running"])
def test_rows_of_another_version_break_no_page(
    olga: Client, broken: dict[str, Any], state: str
) -> None:
    test = make_test(loads=(1.0, 2.0), repeats=1, state=state)
    if "inf" in json.dumps(broken).lower():
        broken = {"progress": {"of": 1e300, "left_s": 1e300}}
    LoadTest.objects.filter(id=test.id).update(**broken)
    for path in (
        page_of(test),
        reverse("capacity:tests"),
        reverse("capacity:home"),
        reverse("capacity:point", args=[test.id, 0]),
        reverse("capacity:export_json", args=[test.id]),
        reverse("capacity:export_csv", args=[test.id]),
    ):
        assert olga.get(path).status_code == 200, path


def test_points_that_cannot_be_read_are_left_out_and_said(olga: Client) -> None:
    test = make_test(loads=(1.0,), repeats=2)
    test.points.filter(number=0).update(figures={"requests": "many"})
    response = olga.get(page_of(test))
    assertContains(response, "1 of its points cannot be read")


def test_fifty_loads_are_one_page(olga: Client) -> None:
    test = make_test(loads=[0.1 * n for n in range(1, 51)], repeats=1)
    response = olga.get(page_of(test))
    assert len(response.context["whole"].rows) == 50
    ticks = re.findall(r'class="x-tick', response.content.decode())
    assert len(ticks) < 100


def test_a_closed_loop_is_said_to_be_one(olga: Client) -> None:
    test = make_test(arrivals="closed", loads=(1, 2, 4), repeats=1)
    response = olga.get(page_of(test))
    assertContains(response, "requests at a time")
    assertNotContains(response, "Across: requests a second")


def test_an_unknown_test_is_not_found(olga: Client) -> None:
    assert olga.get(reverse("capacity:test", args=[uuid.uuid4()])).status_code == 404


def test_the_list_reads_no_workload(olga: Client) -> None:
    """A trace is megabytes; twenty-five of them would be read for a line each."""
    for n in range(3):
        make_test(name=f"No. {n}", loads=(1.0,), repeats=1)
    with CaptureQueriesContext(connection) as asked:
        assertContains(olga.get(reverse("capacity:tests")), "No. 2")
    read = [each["sql"] for each in asked if "capacity_loadtest" in each["sql"]]
    assert read
    assert not [sql for sql in read if '"workload"' in sql]
    assert len(read) <= 3
