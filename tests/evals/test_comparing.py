"""Two runs side by side."""

from __future__ import annotations

import uuid

import pytest

from apps.documents.models import Collection
from apps.evals.comparing import compare
from apps.evals.models import EvalRun, LabelledQuestion, LabelledSet
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.evals.labelled import add_question, finished_run, make_set
from tests.retrieval.conftest import collection, tenant  # noqa: F401 - fixtures
from tests.retrieval.corpus import make_collection

pytestmark = pytest.mark.django_db
QUESTIONS = 40


@pytest.fixture
def labelled_set(collection: Collection) -> LabelledSet:  # noqa: F811
    return make_set(collection)


@pytest.fixture
def ids(labelled_set: LabelledSet) -> list[uuid.UUID]:
    made = [add_question(labelled_set, f"Question {number}?") for number in range(QUESTIONS)]
    return [question.id for question in made]


def run_of(labelled_set: LabelledSet, ids: list[uuid.UUID], *values: float) -> EvalRun:
    """Whose questions got `values` in turn."""
    return finished_run(
        labelled_set, {each: values[number % len(values)] for number, each in enumerate(ids)}
    )


def test_a_difference_beyond_chance_is_told_from_one_within(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    before = run_of(labelled_set, ids, 0.8, 0.6)
    worse, same = run_of(labelled_set, ids, 0.5, 0.4), run_of(labelled_set, ids, 0.6, 0.8)
    fell = compare(before, worse).difference("ndcg@10")
    assert fell is not None
    assert (fell.before, fell.after) == (pytest.approx(0.7), pytest.approx(0.45))
    assert fell.low <= fell.change <= fell.high < 0
    assert (fell.fell, fell.rose, fell.beyond_chance) == (True, False, True)
    level = compare(before, same).difference("ndcg@10")
    assert level is not None
    assert level.low < 0 < level.high
    assert not level.beyond_chance
    rose = compare(worse, before).difference("ndcg@10")
    assert rose is not None
    assert rose.rose


def test_pairs_are_finer_than_means(labelled_set: LabelledSet, ids: list[uuid.UUID]) -> None:
    """Questions vary from 0 to 1; every one of them got a little worse."""
    spread = [number / QUESTIONS for number in range(1, QUESTIONS + 1)]
    before = run_of(labelled_set, ids, *spread)
    after = run_of(labelled_set, ids, *(value - 0.01 for value in spread))
    difference = compare(before, after).difference("recall@10")
    assert difference is not None
    assert difference.fell
    assert difference.change == pytest.approx(-0.01)


def test_the_same_seed_gives_the_same_intervals(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    before, after = run_of(labelled_set, ids, 0.2, 0.9), run_of(labelled_set, ids, 0.3, 0.5, 1.0)
    assert compare(before, after) == compare(before, after)
    assert compare(before, after, seed=1) != compare(before, after, seed=2)


def test_only_questions_in_both_are_compared_and_that_is_said(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    before, after = run_of(labelled_set, ids[:30], 0.5), run_of(labelled_set, ids[20:], 0.9)
    found = compare(before, after)
    assert (found.questions, found.only_before, found.only_after) == (10, 20, 10)
    assert not found.is_whole


def test_questions_whose_labels_changed_say_nothing_of_the_search(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    values = dict.fromkeys(ids, 0.9)
    before = finished_run(labelled_set, values, fingerprints=dict.fromkeys(ids, "a"))
    changed = dict.fromkeys(ids, "a") | {ids[0]: "b"}
    after = finished_run(labelled_set, values | {ids[0]: 0.0}, fingerprints=changed)
    found = compare(before, after)
    assert (found.questions, found.relabelled) == (QUESTIONS - 1, 1)
    assert found.changed == []


def test_changed_questions_come_largest_change_first(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    before = run_of(labelled_set, ids, 0.5)
    after = finished_run(labelled_set, dict.fromkeys(ids, 0.5) | {ids[1]: 0.4, ids[2]: 1.0})
    assert [each.question_id for each in compare(before, after).changed] == [ids[2], ids[1]]
    assert [round(each.change, 2) for each in compare(before, after).changed] == [0.5, -0.1]


def test_what_differs_in_the_configuration_is_named(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    values = dict.fromkeys(ids, 0.5)
    before = finished_run(labelled_set, values, configuration={"options": {"ef_search": 100}})
    after = finished_run(
        labelled_set,
        values,
        configuration={"options": {"ef_search": 200}, "index": {"model": "other"}},
    )
    assert compare(before, after).configuration == {
        "index.model": (None, "other"),
        "options.ef_search": (100, 200),
    }


def test_stages_that_only_one_run_measured_are_left_out(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    values = dict.fromkeys(ids, 0.5)
    before = finished_run(labelled_set, values, configuration={"stages": ["bm25", "fused"]})
    after = finished_run(labelled_set, values)
    assert list(compare(before, after).differences) == ["bm25", "fused"]
    assert compare(before, after).last_stage == "fused"


def test_runs_with_nothing_in_common_have_no_difference(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    nothing = finished_run(labelled_set, {})
    found = compare(nothing, run_of(labelled_set, ids, 0.5))
    assert (found.questions, found.only_after) == (0, QUESTIONS)
    assert found.difference("ndcg@10") is None
    assert found.last_stage == ""


def test_deleted_questions_are_not_compared(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    before, after = run_of(labelled_set, ids, 0.5), run_of(labelled_set, ids, 0.6)
    with tenant_scope(labelled_set.tenant_id):
        LabelledQuestion.objects.filter(id__in=ids[:10]).delete()
    assert compare(before, after).questions == QUESTIONS - 10


def test_a_run_of_another_tenant_has_nothing_in_common(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    other = make_set(make_collection(Tenant.objects.create(slug="other", name="Other")))
    foreign = finished_run(other, {add_question(other, "Theirs?").id: 0.5})
    found = compare(run_of(labelled_set, ids, 0.5), foreign)
    assert (found.questions, found.only_after) == (0, 0)
