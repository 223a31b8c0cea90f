"""Live recall: a share of real searches, checked exactly off their path."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from apps.documents.models import Collection
from apps.retrieval import recall
from apps.retrieval.models import RecallSample
from apps.retrieval.options import SearchOptions
from apps.retrieval.pipeline import retrieve
from apps.retrieval.recall import recall_at
from apps.telemetry.hops import Trace
from apps.telemetry.models import Span
from apps.telemetry.services import record_trace
from apps.tenants.models import Tenant
from tests.retrieval.corpus import delete_document, make_document, write_rows
from tests.retrieval.large import Large, clustered, make_large

pytestmark = pytest.mark.django_db

QUESTION = clustered(1, seed=9)[0]


@pytest.fixture(autouse=True)
def _sampled(settings: Settings) -> None:
    settings.RECALL_SAMPLE_SHARE = 1.0


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(recall, "wake", names.append)
    return names


@pytest.fixture
def answered(
    collection: Collection,
    embedder: object,
    reranker: object,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> Any:
    write_rows(make_document(collection, [f"The warranty number {n} is here." for n in range(12)]))

    def answer(**arguments: Any) -> Trace:
        trace = Trace(collection.tenant_id, "answer")
        retrieve(
            tenant_id=collection.tenant_id,
            question="Which warranty?",
            collection_ids=[collection.id],
            trace=trace,
            **arguments,
        )
        with django_capture_on_commit_callbacks(execute=True):
            record_trace(trace)
        return trace

    return answer


def test_a_search_is_written_after_its_trace_and_a_worker_is_woken(
    answered: Any, collection: Collection, woken: list[str]
) -> None:
    answered()
    sample = RecallSample.objects.get()
    assert (sample.tenant_id, sample.plan, sample.wanted) == (collection.tenant_id, "exact", 100)
    assert len(sample.found) == 12
    assert sample.collection_ids == [collection.id]
    assert sample.document_ids is None
    assert woken == ["retrieval.check_recall"]


def test_a_trace_that_is_not_stored_is_not_sampled(
    collection: Collection, answered: Any, woken: list[str]
) -> None:
    trace = Trace(collection.tenant_id, "answer")
    retrieve(
        tenant_id=collection.tenant_id,
        question="Which warranty?",
        collection_ids=[collection.id],
        trace=trace,
    )
    assert not RecallSample.objects.exists()


@pytest.mark.usefixtures("woken")
def test_none_is_written_where_sampling_is_off_or_no_vector_was_searched(
    answered: Any, settings: Settings
) -> None:
    answered(options=SearchOptions(vectors=False))
    settings.RECALL_SAMPLE_SHARE = 0.0
    answered()
    assert not RecallSample.objects.exists()


def test_a_sample_that_cannot_be_written_hurts_nothing(
    answered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise DatabaseError("disk full")

    monkeypatch.setattr(RecallSample.objects, "create", broken)
    trace = answered()
    assert Span.objects.filter(trace_id=trace.trace_id).count() == 3


def sample_of(large: Large, found: list[uuid.UUID], **values: Any) -> RecallSample:
    return RecallSample.objects.create(
        **{
            "tenant": large.tenant, "index": large.index, "question": QUESTION.tolist(),
            "collection_ids": [large.collection.id], "plan": "hnsw", "ef_search": 40,
            "wanted": 20, "found": found, "search_ms": 2.0, **values,
        }
    )  # fmt: skip


def checked(large: Large, found: list[uuid.UUID], **values: Any) -> RecallSample:
    sample = sample_of(large, found, **values)
    recall.check_due()
    sample.refresh_from_db()
    return sample


@pytest.fixture
def large(collection: Collection) -> Large:
    return make_large(collection, 200)


def test_all_the_nearest_are_full_recall(large: Large) -> None:
    sample = checked(large, large.nearest(QUESTION, 20))
    assert (sample.recall_10, sample.recall) == (1.0, 1.0)
    assert (sample.exact_rows, sample.found_rows) == (20, 20)
    assert sample.exact_ms is not None


def test_what_was_missed_lowers_recall_where_it_was_missed(large: Large) -> None:
    nearest = large.nearest(QUESTION, 22)
    sample = checked(large, [*nearest[:8], *nearest[9:10], *nearest[11:22]])
    assert (sample.recall_10, sample.recall) == (0.9, 0.9)


def test_no_identifiers_remain_once_a_sample_is_checked(large: Large) -> None:
    sample = checked(large, large.nearest(QUESTION, 20), document_ids=[large.document.id])
    assert sample.recall == 1.0
    assert (sample.found, sample.collection_ids, sample.document_ids) == ([], [], None)


def test_passages_that_were_deleted_meanwhile_are_no_loss_of_recall(large: Large) -> None:
    found = large.nearest(QUESTION, 20)
    sample = sample_of(large, found)
    delete_document(large.document)
    recall.check_due()
    sample.refresh_from_db()
    assert (sample.exact_rows, sample.found_rows) == (0, 20)
    assert (sample.recall_10, sample.recall) == (None, None)


def test_copies_of_a_passage_stand_in_for_each_other() -> None:
    first, second, third = (uuid.uuid4() for _ in range(3))
    assert recall_at(2, {first: 0.9, third: 0.8}, {first: 0.9, second: 0.8}) == 1.0
    assert recall_at(2, {first: 0.9}, {first: 0.9, second: 0.8}) == 0.5
    assert recall_at(2, {}, {}) is None


def test_samples_are_checked_once(large: Large) -> None:
    sample_of(large, [])
    sample_of(large, [])
    assert recall.check_due() == 2
    assert recall.check_due() == 0


def test_old_samples_go(large: Large, settings: Settings) -> None:
    old, young = sample_of(large, []), sample_of(large, [])
    RecallSample.objects.filter(id=old.id).update(at=timezone.now() - timedelta(days=91))
    recall.check_due()
    assert [each.id for each in RecallSample.objects.all()] == [young.id]


def test_recall_over_time_is_by_day_and_plan(large: Large, tenant: Tenant) -> None:
    day = datetime(2026, 5, 1, 23, 30, tzinfo=UTC)
    for recall_10, found_rows, plan, at in (
        (1.0, 20, "hnsw", day),
        (0.8, 15, "hnsw", day),
        (1.0, 20, "exact", day),
        (0.9, 20, "hnsw", day + timedelta(hours=1)),
    ):
        sample = sample_of(
            large, [], plan=plan, recall_10=recall_10, recall=recall_10, exact_rows=20,
            found_rows=found_rows, exact_ms=5.0,
        )  # fmt: skip
        RecallSample.objects.filter(id=sample.id).update(at=at)
    sample_of(large, [])  # not checked yet
    exact, hnsw, next_day = recall.recall_over_time(tenant.id, day - timedelta(days=1))
    assert (exact.day, exact.plan, exact.samples) == (date(2026, 5, 1), "exact", 1)
    assert (hnsw.plan, hnsw.samples, hnsw.short_share) == ("hnsw", 2, 0.5)
    assert hnsw.recall_10 == pytest.approx(0.9)
    assert 0.0 <= hnsw.low < 0.9 < hnsw.high <= 1.0
    assert (next_day.day, next_day.samples) == (date(2026, 5, 2), 1)
    assert (next_day.low, next_day.high) == (0.0, 1.0)
    assert recall.recall_over_time(uuid.uuid4(), day) == []
