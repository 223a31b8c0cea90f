"""Runs by the clock: which sets are due one, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.documents.models import Collection, Document
from apps.evals import scheduling
from apps.evals.models import EvalRun, LabelledSet, RunQuestion
from apps.evals.scheduling import last_night, start_due_runs
from apps.retrieval.profiles import apply_profile
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.evals.labelled import (
    add_question,
    finished_run,
    make_corpus,
    make_set,
    make_topic_set,
    topic_document,
)
from tests.retrieval.conftest import collection, tenant  # noqa: F401 - fixtures
from worker.celery import app

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def labelled_set(collection: Collection) -> LabelledSet:  # noqa: F811
    made = make_topic_set(collection, make_corpus(collection))
    return age(made, timedelta(days=3))


def age(labelled_set: LabelledSet, by: timedelta) -> LabelledSet:
    with tenant_scope(labelled_set.tenant_id):
        LabelledSet.objects.filter(id=labelled_set.id).update(created_at=timezone.now() - by)
        labelled_set.refresh_from_db()
    return labelled_set


def ran(labelled_set: LabelledSet, at: datetime, *, state: str = "done") -> EvalRun:
    """A run that was started by the clock at `at`, of what there is now."""
    [run] = start_due_runs(far_future())
    EvalRun.objects.filter(id=run.id).update(created_at=at, finished_at=at, state=state)
    run.refresh_from_db()
    return run


def far_future() -> datetime:
    return timezone.now() + timedelta(days=2)


def night(settings: Settings) -> datetime:
    """When the hour struck last, by the real clock."""
    return last_night(timezone.now())


def test_the_hour_strikes_once_a_day(settings: Settings) -> None:
    settings.EVALUATE_AT_HOUR = 2
    assert last_night(datetime(2026, 5, 2, 1, 59, tzinfo=UTC)) == datetime(
        2026, 5, 1, 2, tzinfo=UTC
    )
    assert last_night(datetime(2026, 5, 2, 2, 0, tzinfo=UTC)) == datetime(2026, 5, 2, 2, tzinfo=UTC)


def test_a_set_is_run_once_a_night(labelled_set: LabelledSet) -> None:
    [run] = start_due_runs()
    assert (run.trigger, run.state, run.sample) == ("nightly", "waiting", None)
    assert run.configuration["default"]
    assert start_due_runs() == []


def test_nights_that_were_missed_are_made_up_for_once(
    labelled_set: LabelledSet, settings: Settings
) -> None:
    ran(labelled_set, timezone.now() - timedelta(days=5))
    assert len(start_due_runs()) == 1
    assert start_due_runs() == []


def test_an_unchanged_set_that_was_run_lately_waits_for_the_next_night(
    labelled_set: LabelledSet, settings: Settings
) -> None:
    ran(labelled_set, night(settings) - HOUR)
    after_the_hour = night(settings) + timedelta(minutes=1)
    assert start_due_runs(after_the_hour) == []
    assert len(start_due_runs(after_the_hour + timedelta(days=1))) == 1


def test_a_changed_configuration_is_run_that_night(
    labelled_set: LabelledSet,
    tenant: Tenant,  # noqa: F811
    settings: Settings,
) -> None:
    ran(labelled_set, night(settings) - HOUR)
    apply_profile(tenant=tenant, user=None, origin="manual", changes={"rerank_candidates": 40})
    [run] = start_due_runs(night(settings) + timedelta(minutes=1))
    assert run.configuration["options"]["rerank_candidates"] == 40


def test_a_changed_collection_is_run_that_night(
    labelled_set: LabelledSet,
    collection: Collection,  # noqa: F811
    settings: Settings,
) -> None:
    ran(labelled_set, night(settings) - HOUR)
    with tenant_scope(collection.tenant_id):
        topic_document(collection, "insurance")
    assert len(start_due_runs(night(settings) + timedelta(minutes=1))) == 1


def test_a_failed_night_is_not_tried_again_and_again(
    labelled_set: LabelledSet, settings: Settings
) -> None:
    ran(labelled_set, night(settings) + timedelta(minutes=1), state="failed")
    assert start_due_runs() == []


def test_a_run_that_somebody_cancelled_does_not_count(labelled_set: LabelledSet) -> None:
    ran(labelled_set, timezone.now(), state="cancelled")
    assert len(start_due_runs()) == 1


def test_a_new_set_waits_for_its_first_night(
    collection: Collection,  # noqa: F811
) -> None:
    make_topic_set(collection, make_corpus(collection))
    assert start_due_runs() == []
    assert len(start_due_runs(timezone.now() + timedelta(days=1))) == 1


def test_sets_that_are_not_nightly_or_have_nothing_to_measure_are_left_alone(
    labelled_set: LabelledSet,
    collection: Collection,  # noqa: F811
) -> None:
    with tenant_scope(collection.tenant_id):
        LabelledSet.objects.update(nightly=False)
    age(make_set(collection, name="Empty"), timedelta(days=3))
    assert start_due_runs() == []


def test_a_large_set_is_sampled(labelled_set: LabelledSet, settings: Settings) -> None:
    settings.EVALUATE_QUESTIONS_MAX = 5
    [run] = start_due_runs()
    assert (run.sample, run.total) == (5, 5)


class TestLargeIngestions:
    @pytest.fixture(autouse=True)
    def _ran_lately(self, labelled_set: LabelledSet, settings: Settings) -> None:
        settings.EVALUATE_AFTER_DOCUMENTS = 2
        ran(labelled_set, timezone.now())

    def add(self, collection: Collection, count: int, **fields: object) -> None:  # noqa: F811
        with tenant_scope(collection.tenant_id):
            for number in range(count):
                document = topic_document(collection, f"topic{number}")
                Document.objects.filter(id=document.id).update(
                    **{"ready_at": timezone.now()} | fields
                )

    def test_they_are_followed_by_a_run(self, collection: Collection) -> None:  # noqa: F811
        self.add(collection, 2)
        [run] = start_due_runs()
        assert run.trigger == "ingestion"

    def test_small_ones_are_not(self, collection: Collection) -> None:  # noqa: F811
        self.add(collection, 1)
        assert start_due_runs() == []

    def test_nor_what_is_little_of_the_collection(
        self,
        collection: Collection,  # noqa: F811
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(scheduling, "_SHARE", 0.5)
        self.add(collection, 3)
        assert start_due_runs() == []
        self.add(collection, 1)
        assert len(start_due_runs()) == 1

    def test_they_are_waited_for(self, collection: Collection) -> None:  # noqa: F811
        self.add(collection, 2)
        self.add(collection, 1, state="parsing")
        assert start_due_runs() == []

    def test_many_deletions_are_one_too(self, collection: Collection) -> None:  # noqa: F811
        with tenant_scope(collection.tenant_id):
            gone = Document.objects.order_by("id").values_list("id", flat=True)[:2]
            Document.objects.filter(id__in=list(gone)).delete()
        assert len(start_due_runs()) == 1


def test_old_details_go_and_figures_and_the_newest_stay(
    collection: Collection,  # noqa: F811
    settings: Settings,
) -> None:
    settings.EVALUATION_KEEP_DAYS = 30
    labelled_set = make_set(collection, nightly=False)
    question = add_question(labelled_set, "Which?")
    old, newest = (finished_run(labelled_set, {question.id: 0.5}) for _ in range(2))
    long_ago = timezone.now() - timedelta(days=31)
    EvalRun.objects.filter(id=old.id).update(created_at=long_ago)
    EvalRun.objects.update(finished_at=long_ago)
    start_due_runs()
    assert {each.run_id for each in RunQuestion.objects.all()} == {newest.id}
    old.refresh_from_db()
    assert old.figures["questions"] == 1


def test_the_clock_looks_after_runs_and_their_messages_have_their_own_queue() -> None:
    tasks = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert {"evals.sweep", "evals.schedule"} <= tasks
    route = app.amqp.router.route({}, "evals.run_next")
    assert route["queue"].name == "evaluation"
    assert app.amqp.router.route({}, "evals.schedule")["queue"].name == "maintenance"
