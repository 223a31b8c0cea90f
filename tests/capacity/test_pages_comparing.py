"""Load tests side by side, and what nothing is said of."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from apps.capacity.load.types import Lengths, Promises, Workload
from apps.capacity.loadtests.plan import Knee
from apps.capacity.models import LoadTest
from tests.capacity.factories import KNEE, make_client, make_point, make_records, make_test
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga(cast: Cast) -> Client:
    return signed_in(cast.olga)


def compared(browser: Client, tests: Sequence[LoadTest]) -> HttpResponse:
    query = "&".join(f"test={test.id}" for test in tests)
    return browser.get(f"{reverse('capacity:compare')}?{query}")  # type: ignore[return-value]


def test_two_tests_of_the_same_stand_side_by_side(olga: Client) -> None:
    before = make_test(name="Before", conditions={"precision": "Q8_0"})
    after = make_test(name="After", conditions={"precision": "Q4_0"})
    response = compared(olga, [before, after])
    for words in ("Before", "After", "Q8_0", "Q4_0", "intervals overlap", "within chance"):
        assertContains(response, words)
    assert "<h3>First token, p95</h3>" in response.content.decode()


def test_a_knee_beyond_the_others_interval_is_called_higher(olga: Client) -> None:
    more = KNEE.model_copy(update={"load": 5.0, "load_low": 4.5, "load_high": 5.6})
    response = compared(olga, [make_test(), make_test(knee=more)])
    assertContains(response, "B serves the highest load within the promises")


def test_a_figure_is_called_better_only_beyond_both_intervals(olga: Client) -> None:
    slow, fast = make_test(with_points=False), make_test(with_points=False)
    for repeat in range(3):
        make_point(slow, 4.0, repeat=repeat)
        make_point(fast, 4.0, repeat=repeat, records=make_records(1.0, seed=repeat))
    assertContains(compared(olga, [slow, fast]), "B is better")


def test_one_repeat_is_no_ground_for_a_verdict(olga: Client) -> None:
    tests = [make_test(loads=(1.0,), repeats=1) for _ in range(2)]
    response = compared(olga, tests)
    assertContains(response, "one repeat alone: no interval")
    assertNotContains(response, "is better")


def test_tests_that_asked_for_something_else_are_not_compared(olga: Client) -> None:
    longer = Workload(kind="synthetic", prompt=Lengths(mean=900), output=Lengths(mean=20))
    response = compared(olga, [make_test(), make_test(workload=longer)])
    assertContains(response, "They did not ask the same")
    assertContains(response, "not comparable")
    assertNotContains(response, "is better")


def test_knees_of_different_promises_are_not_compared(olga: Client) -> None:
    response = compared(olga, [make_test(), make_test(promises=Promises(ttft_ms=5000))])
    assertContains(response, "different promises")


def test_a_late_generator_forbids_verdicts(olga: Client) -> None:
    late = make_test(with_points=False)
    make_point(late, 1.0, client=make_client(is_trustworthy=False))
    assertContains(compared(olga, [make_test(), late]), "A load generator was late")


def test_a_test_without_a_knee_is_compared_otherwise(olga: Client) -> None:
    response = compared(olga, [make_test(), make_test(knee=Knee(found=False, reason="stopped"))])
    assertContains(response, "B has none with an interval")


def test_tests_without_a_common_load_say_so(olga: Client) -> None:
    response = compared(olga, [make_test(loads=(1.0,)), make_test(loads=(2.0,))])
    assertContains(response, "no load in common")


def test_four_are_compared_and_five_are_not(olga: Client) -> None:
    tests = [make_test(loads=(1.0,), repeats=2, name=f"No. {n}") for n in range(5)]
    assertContains(compared(olga, tests[:4]), "4 load tests compared")
    assertRedirects(compared(olga, tests), f"{reverse('capacity:tests')}?problem=compare")


@pytest.mark.parametrize("query", ["", "test=x", "test=x&test=y", "test=%00&test="])
def test_what_names_no_two_tests_leads_back_to_the_list(olga: Client, query: str) -> None:
    response = olga.get(f"{reverse('capacity:compare')}?{query}", follow=True)
    assertContains(response, "Choose two to four load tests")


def test_the_same_test_twice_is_one(olga: Client) -> None:
    test = make_test(loads=(1.0,), repeats=1)
    assert compared(olga, [test, test]).status_code == 302


def test_a_test_that_is_gone_is_not_found(olga: Client) -> None:
    test = make_test(loads=(1.0,), repeats=1)
    query = f"test={test.id}&test={uuid.uuid4()}"
    assert olga.get(f"{reverse('capacity:compare')}?{query}").status_code == 404


def test_rows_of_another_version_are_compared_as_far_as_they_go(olga: Client) -> None:
    tests = [make_test(loads=(1.0,)), make_test(loads=(1.0,))]
    LoadTest.objects.filter(id=tests[1].id).update(plan={}, workload={}, conditions=[], target={})
    response = compared(olga, tests)
    assertContains(response, "What one of them was to do cannot be read")
