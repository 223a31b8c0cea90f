"""Two runs side by side: what is beyond chance is said in words, and each question opens."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from apps.evals.models import EvalRun, RunQuestion
from tests.cast import Cast, signed_in
from tests.evals.shown import FOUND, NEVER_FOUND, PLACED_BADLY, Shelf, make_shelf, shown_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def carl(cast: Cast) -> Client:
    return signed_in(cast.carl)


@pytest.fixture
def shelf(cast: Cast) -> Shelf:
    return make_shelf(cast.acme)


def address(before: EvalRun, after: EvalRun, rest: str = "") -> str:
    return f"/t/acme/quality/compare/{before.id}/{after.id}/{rest}"


def text_of(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


def test_a_difference_beyond_chance_is_said_in_words(carl: Client, shelf: Shelf) -> None:
    worse, better = shown_run(shelf, [NEVER_FOUND] * 3), shown_run(shelf, [FOUND] * 3)
    page = text_of(carl, address(worse, better))
    assert "Better, beyond chance" in page
    assert "+1.000" in page
    assert "Means of 3 questions, paired" in page
    turned = text_of(carl, address(better, worse))
    assert "Worse, beyond chance" in turned
    assert "−1.000" in turned


def test_a_difference_within_chance_is_not_called_one(carl: Client, shelf: Shelf) -> None:
    before = shown_run(shelf, [FOUND, FOUND, NEVER_FOUND])
    after = shown_run(shelf, [FOUND, NEVER_FOUND, FOUND])
    page = text_of(carl, address(before, after))
    assert "Within chance" in page
    assert "beyond chance</span>" not in page


def test_the_same_twice_has_no_changed_question(carl: Client, shelf: Shelf) -> None:
    page = text_of(carl, address(shown_run(shelf), shown_run(shelf)))
    assert "The same" in page
    assert "None: each question found the same passages" in page
    assert "Neither the configuration nor the number of documents" in page


def test_configurations_are_set_side_by_side(carl: Client, shelf: Shelf) -> None:
    before = shown_run(shelf, configuration={"reranker": "off", "options": {"ef_search": 100}})
    page = re.sub(r"\s*<[^>]+>\s*", "|", text_of(carl, address(before, shown_run(shelf))))
    assert "|ef_search||100||200|" in page.replace("|||", "||")
    assert "off" in page


def test_changed_questions_come_with_their_ranks_the_largest_change_first(
    carl: Client, shelf: Shelf
) -> None:
    before = shown_run(shelf, [FOUND, PLACED_BADLY, NEVER_FOUND])
    after = shown_run(shelf, [FOUND, FOUND, PLACED_BADLY])
    page = text_of(carl, address(before, after))
    changed = page[page.index('id="changed"') :]
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", changed))
    assert "2 of 3 questions changed; by nDCG@10, 1 became better and 0 worse" in words
    assert "12. → 1." in words
    assert "not found → 12." in words
    assert words.index("12. → 1.") < words.index("not found → 12.")
    assert f"/{shelf.questions[0].id}/" not in changed


def test_questions_that_are_not_comparable_are_left_out_and_said(
    carl: Client, shelf: Shelf
) -> None:
    before, after = shown_run(shelf), shown_run(shelf, [FOUND] * 3)
    RunQuestion.objects.filter(run=after, question=shelf.questions[1]).update(fingerprint="other")
    RunQuestion.objects.filter(run=after, question=shelf.questions[2]).delete()
    page = text_of(carl, address(before, after))
    assert "compared are the 1 question that both asked" in page
    assert "1 asked only before, 0 only after, 1 whose text or labels were changed" in page


@pytest.mark.parametrize("state", [EvalRun.State.RUNNING, EvalRun.State.FAILED])
def test_a_run_that_is_not_done_is_not_compared(
    carl: Client, shelf: Shelf, state: EvalRun.State
) -> None:
    page = text_of(carl, address(shown_run(shelf, state=state), shown_run(shelf)))
    assert "There is nothing to compare yet" in page


def test_a_question_opens_to_the_passages_of_both(carl: Client, shelf: Shelf) -> None:
    before, after = shown_run(shelf, [PLACED_BADLY] * 3), shown_run(shelf, [FOUND] * 3)
    url = address(before, after, f"questions/{shelf.questions[0].id}/")
    page = text_of(carl, url)
    assert "3. → 1." in page
    assert "12. → 1." in page
    assert page.count("Relevant, grade 1") == 10, "five stages, twice"
    assert "Found, placed badly".lower() in page


def test_runs_of_another_tenant_are_not_compared_with(
    cast: Cast, carl: Client, shelf: Shelf
) -> None:
    theirs = shown_run(make_shelf(cast.rival))
    assert carl.get(address(shown_run(shelf), theirs)).status_code == 404
