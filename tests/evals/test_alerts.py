"""Alerts of runs: raised for what fell beyond chance, once, and for nothing else."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone
from pgvector import HalfVector

from apps.documents.models import Collection
from apps.evals.alerts import check_run, earlier_run
from apps.evals.live_alerts import check_live
from apps.evals.models import Alert, EvalRun, LabelledSet
from apps.retrieval.models import EmbeddingIndex, RecallSample
from apps.retrieval.profiles import apply_profile
from apps.telemetry.models import Span
from apps.tenants.models import Tenant
from tests.evals.labelled import add_question, finished_run, make_set
from tests.retrieval.conftest import collection, tenant  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db


@pytest.fixture
def labelled_set(collection: Collection) -> LabelledSet:  # noqa: F811
    return make_set(collection)


@pytest.fixture
def ids(labelled_set: LabelledSet) -> list[uuid.UUID]:
    made = [add_question(labelled_set, f"Question {number}?") for number in range(20)]
    return [question.id for question in made]


def run_at(labelled_set: LabelledSet, ids: list[uuid.UUID], value: float, **more: str) -> EvalRun:
    """Whose questions got about `value`."""
    values = {each: value + 0.05 * (number % 2) for number, each in enumerate(ids)}
    return finished_run(labelled_set, values, **more)  # type: ignore[arg-type]


def test_a_fall_beyond_chance_is_raised_with_its_figures(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    before = run_at(labelled_set, ids, 0.9)
    run = run_at(labelled_set, ids, 0.6)
    raised = check_run(run)
    assert {alert.metric for alert in raised} == {"ndcg@10", "recall@10", "recall@50"}
    figures = raised[0].figures
    assert figures["before"] == pytest.approx(0.925)
    assert figures["after"] == pytest.approx(0.625)
    assert figures["low"] <= -0.3 <= figures["high"] < 0 or figures["high"] == pytest.approx(-0.3)
    assert (figures["questions"], figures["before_run"]) == (20, str(before.id))
    assert {
        alert.run_id for alert in Alert.objects.filter(tenant_id=run.tenant_id, seen_at=None)
    } == {run.id}


@pytest.mark.parametrize("value", [0.9, 0.95])
def test_what_held_or_rose_raises_nothing(
    labelled_set: LabelledSet, ids: list[uuid.UUID], value: float
) -> None:
    run_at(labelled_set, ids, 0.9)
    assert check_run(run_at(labelled_set, ids, value)) == []


def test_a_fall_within_chance_raises_nothing(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    finished_run(labelled_set, {each: float(number % 2) for number, each in enumerate(ids)})
    after = {each: float((number + 1) % 2) for number, each in enumerate(ids)} | {ids[1]: 0.0}
    assert check_run(finished_run(labelled_set, after | {ids[0]: 0.5})) == []


def test_it_is_not_raised_again_while_it_is_open(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    for value in (0.9, 0.6, 0.3):
        check_run(run_at(labelled_set, ids, value))
    assert Alert.objects.count() == 3
    Alert.objects.update(seen_at="2026-01-01T00:00Z")
    check_run(run_at(labelled_set, ids, 0.1))
    assert Alert.objects.filter(tenant_id=labelled_set.tenant_id, seen_at=None).count() == 3


def test_each_set_has_its_own(
    labelled_set: LabelledSet,
    ids: list[uuid.UUID],
    collection: Collection,  # noqa: F811
) -> None:
    other = make_set(collection, name="Others")
    others = [add_question(other, f"Other {number}?").id for number in range(20)]
    for value in (0.9, 0.6):
        check_run(run_at(labelled_set, ids, value))
        check_run(run_at(other, others, value))
    assert Alert.objects.count() == 6


@pytest.mark.parametrize("trigger", [EvalRun.Trigger.COMMAND, EvalRun.Trigger.GATE])
def test_runs_that_are_not_of_every_day_raise_nothing(
    labelled_set: LabelledSet, ids: list[uuid.UUID], trigger: str
) -> None:
    run_at(labelled_set, ids, 0.9)
    assert check_run(run_at(labelled_set, ids, 0.2, trigger=trigger)) == []


def test_other_configurations_and_degraded_runs_are_not_compared(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    good, bad = dict.fromkeys(ids, 0.9), dict.fromkeys(ids, 0.2)
    oldest = finished_run(labelled_set, good)
    tried = finished_run(labelled_set, bad, configuration={"default": False})
    assert check_run(tried) == []
    broken = finished_run(labelled_set, bad, degraded={"embedder_down": 1})
    assert check_run(broken) == []
    after = finished_run(labelled_set, good)
    assert earlier_run(after) == oldest


def test_a_few_questions_raise_nothing(labelled_set: LabelledSet, ids: list[uuid.UUID]) -> None:
    run_at(labelled_set, ids[:9], 0.9)
    assert check_run(run_at(labelled_set, ids[:9], 0.1)) == []


def test_a_first_run_has_nothing_to_fall_from(
    labelled_set: LabelledSet, ids: list[uuid.UUID]
) -> None:
    assert check_run(run_at(labelled_set, ids, 0.1)) == []


class TestLive:
    @pytest.fixture
    def index(self, tenant: Tenant) -> EmbeddingIndex:  # noqa: F811
        return EmbeddingIndex.objects.create(
            tenant=tenant, model_id="words", dimensions=2, chunker_version=1, active=True
        )

    def sample(
        self,
        index: EmbeddingIndex,
        *recalls: float,
        found_rows: int = 100,
        exact_rows: int = 100,
        age: timedelta = timedelta(hours=1),
    ) -> None:
        """Checked samples of a while ago."""
        for recall in recalls:
            made = RecallSample.objects.create(
                tenant_id=index.tenant_id,
                index=index,
                question=HalfVector([1, 0]),
                collection_ids=[],
                plan="hnsw",
                wanted=100,
                found=[],
                found_rows=found_rows,
                exact_rows=exact_rows,
                recall_10=recall,
                recall=recall,
                search_ms=5,
                exact_ms=50,
            )
            RecallSample.objects.filter(id=made.id).update(at=timezone.now() - age)

    def test_recall_under_its_goal_beyond_chance_is_raised(self, index: EmbeddingIndex) -> None:
        self.sample(index, *[0.9, 0.8] * 15)
        [alert] = check_live()
        assert (alert.kind, alert.metric, alert.run_id) == ("recall_low", "recall@10", None)
        assert alert.figures["after"] == pytest.approx(0.85)
        assert alert.figures["low"] < 0.85 < alert.figures["high"] < alert.figures["goal"] == 0.98
        assert alert.figures["samples"] == 30

    def test_recall_that_may_well_be_good_enough_is_not(self, index: EmbeddingIndex) -> None:
        self.sample(index, *[1.0] * 25, 0.5)
        assert check_live() == []

    def test_a_few_samples_say_nothing(self, index: EmbeddingIndex) -> None:
        self.sample(index, *[0.2] * 19)
        assert check_live() == []

    def test_the_goal_is_the_profiles(
        self,
        index: EmbeddingIndex,
        tenant: Tenant,  # noqa: F811
    ) -> None:
        apply_profile(
            tenant=tenant,
            user=None,
            origin="manual",
            changes={"ef_search": 150},
            recall_goal=0.8,
        )
        self.sample(index, *[0.9, 0.8] * 15)
        assert check_live() == []

    def search(self, tenant: Tenant, **attributes: object) -> None:  # noqa: F811
        Span.objects.create(
            tenant_id=tenant.id,
            trace_id=uuid.uuid4(),
            kind="answer",
            hop="search",
            status="ok",
            started_at=timezone.now(),
            work_ms=5,
            attributes=attributes,
        )

    def test_rows_that_exist_and_were_not_found_are_raised(self, tenant: Tenant) -> None:  # noqa: F811
        for _ in range(5):
            self.search(tenant, plan="hnsw", rows=100)
        self.search(tenant, plan="exact", rows=3)
        self.search(tenant, plan="hnsw", rows=99, short_rows=1)
        [alert] = check_live()
        assert (alert.kind, alert.figures) == ("rows_missing", {"short": 1, "count": 6})
        assert check_live() == []

    def test_exact_searches_miss_nothing(self, tenant: Tenant) -> None:  # noqa: F811
        self.search(tenant, plan="exact", rows=7)
        assert check_live() == []

    def test_samples_are_told_of_once(self, index: EmbeddingIndex) -> None:
        self.sample(index, *[0.5] * 30)
        assert len(check_live()) == 1
        assert check_live() == []
        Alert.objects.update(seen_at=timezone.now())
        assert check_live() == []
        self.sample(index, *[0.5] * 30, age=timedelta(seconds=-1))
        assert len(check_live()) == 1

    def test_what_is_older_than_a_day_is_past(self, index: EmbeddingIndex) -> None:
        self.sample(index, *[0.5] * 30, age=timedelta(hours=25))
        assert check_live() == []
