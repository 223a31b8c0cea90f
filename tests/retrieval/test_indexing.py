"""The job that makes a document findable."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from apps.documents import jobs
from apps.documents.models import Collection, Document, DocumentState, Job, Stage
from apps.inference import errors, registry
from apps.retrieval.embedding import EMBED_ATTEMPTS, EMBED_BATCH
from apps.retrieval.indexing import index_next
from apps.retrieval.models import ChunkTerms, ChunkVector, EmbeddingIndex
from apps.telemetry.models import Span
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import WordEmbedder, delete_document, make_document
from tests.retrieval.test_bm25 import made_up_texts

pytestmark = pytest.mark.django_db


def index(document: Document) -> list[float]:
    """Run the job; the waits it asked for."""
    waits: list[float] = []
    index_next(sleep=waits.append)
    return waits


def make_due(document: Document, *, since_s: float = 0) -> None:
    """As if the time had passed that it was put back for; and it had waited `since_s`."""
    now = timezone.now()
    Job.objects.filter(document=document).update(
        not_before=now, since=now - timedelta(seconds=since_s)
    )


def reload(document: Document) -> Document:
    with tenant_scope(document.tenant_id):
        return Document.objects.get(tenant_id=document.tenant_id, id=document.id)


def rows(tenant: Tenant) -> tuple[int, int]:
    return (
        ChunkVector.objects.filter(tenant=tenant).count(),
        ChunkTerms.objects.filter(tenant=tenant).count(),
    )


def test_a_document_becomes_ready_with_a_vector_and_terms_a_chunk(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, made_up_texts(150))
    index(document)
    assert reload(document).state == DocumentState.READY
    assert rows(tenant) == (150, 150)
    assert embedder.batches == [EMBED_BATCH, EMBED_BATCH, 150 - 2 * EMBED_BATCH]
    stored = EmbeddingIndex.objects.get(tenant=tenant)
    assert (stored.model_id, stored.dimensions, stored.active) == ("words", 64, True)


def test_the_hop_is_recorded_with_figures_and_no_text(
    collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, ["battery life", "warranty"])
    index(document)
    span = Span.objects.get(trace_id=document.id)
    assert (span.kind, span.hop, span.status) == ("ingestion", "index", "ok")
    assert set(span.attributes) == {"chunks", "tokens", "embed_ms", "write_ms"}
    assert (span.attributes["chunks"], span.attributes["tokens"]) == (2, 3)


def test_a_document_without_chunks_becomes_ready(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, [])
    index(document)
    assert reload(document).state == DocumentState.READY
    assert rows(tenant) == (0, 0)


def test_running_it_twice_changes_nothing(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, made_up_texts(3))
    index(document)
    index(document)
    assert rows(tenant) == (3, 3)
    assert embedder.batches == [3]


def test_rows_that_an_earlier_attempt_left_are_replaced(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, made_up_texts(3))
    index(document)
    with tenant_scope(tenant.id):
        Document.objects.filter(id=document.id).update(state=DocumentState.INDEXING)
        jobs.submit(document, Stage.INDEX)
    index(document)
    assert embedder.batches == [3, 3]
    assert rows(tenant) == (3, 3)


@pytest.mark.parametrize("state", sorted(set(DocumentState.values) - set(jobs.UNFINISHED)))
def test_a_job_of_a_finished_document_does_nothing_and_goes(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder, state: str
) -> None:
    document = make_document(collection, ["text"], state=state)
    with tenant_scope(tenant.id):
        jobs.submit(document, Stage.INDEX)
    index(document)
    assert reload(document).state == state
    assert rows(tenant) == (0, 0)
    assert not Job.objects.exists()


def test_an_embedder_that_comes_back_is_waited_for(
    collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, ["text"])
    embedder.failures = [errors.Unavailable("down"), errors.TimedOut("slow")]
    waits = index(document)
    assert reload(document).state == DocumentState.READY
    assert len(waits) == 2
    assert 1.0 <= waits[0] <= 1.5 <= 2.0 <= waits[1] <= 3.0


def test_a_document_waits_while_the_embedder_stays_away(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, ["text"])
    embedder.failures = [errors.Unavailable("The embedding server is not reachable.")] * 9
    assert len(index(document)) == EMBED_ATTEMPTS - 1
    waits = reload(document)
    assert (waits.state, waits.error_code) == (DocumentState.INDEXING, "embedder_unavailable")
    assert "not reachable" in waits.error_message
    assert rows(tenant) == (0, 0)
    assert Span.objects.get(trace_id=document.id).status == "error"
    assert not index_next()  # it is not due yet


def test_waiting_for_the_embedder_is_no_attempt_and_ends_when_it_answers(
    collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, ["text"])
    for _ in range(5):
        embedder.failures = [errors.Unavailable("down")] * EMBED_ATTEMPTS
        index(document)
        make_due(document)
    index(document)
    done = reload(document)
    assert (done.state, done.error_code, done.error_message) == (DocumentState.READY, "", "")


def test_an_embedder_that_stays_away_for_a_day_fails_the_document_with_words(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, ["text"])
    embedder.failures = [errors.Unavailable("The embedding server is not reachable.")] * 9
    index(document)
    make_due(document, since_s=25 * 60 * 60)
    index(document)
    failed = reload(document)
    assert (failed.state, failed.error_code) == (DocumentState.FAILED, "embedder_unavailable")
    assert "not reachable" in failed.error_message
    assert "Retry" in failed.error_message
    assert rows(tenant) == (0, 0)


def test_a_long_queue_is_not_counted_as_waiting_for_the_embedder(
    collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, ["text"])
    Job.objects.filter(document=document).update(since=timezone.now() - timedelta(days=3))
    embedder.failures = [errors.Unavailable("down")] * EMBED_ATTEMPTS
    index(document)
    assert reload(document).state == DocumentState.INDEXING


def test_the_job_is_held_on_while_a_hanging_embedder_is_waited_for(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = make_document(collection, ["text"])

    def lease_almost_over(_: float) -> None:
        Job.objects.filter(document=document).update(lease_expires_at=timezone.now())

    leases = []

    class Looking(WordEmbedder):
        def embed_documents(self, texts):  # type: ignore[no-untyped-def]
            leases.append(Job.objects.get(document=document).lease_expires_at)
            return super().embed_documents(texts)

    looking = Looking()
    looking.failures = [errors.TimedOut("silent")] * (EMBED_ATTEMPTS - 1)
    monkeypatch.setattr(registry, "get_embedder", lambda: looking)
    index_next(sleep=lease_almost_over)
    assert all(lease > timezone.now() + timedelta(seconds=30) for lease in leases)
    assert reload(document).state == DocumentState.READY


def test_an_attempt_that_was_taken_over_stops_embedding_and_writes_nothing(
    tenant: Tenant, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = make_document(collection, made_up_texts(3 * EMBED_BATCH))
    thieves = []

    class Stolen(WordEmbedder):
        def embed_documents(self, texts):  # type: ignore[no-untyped-def]
            if not thieves:
                Job.objects.filter(document=document).update(lease_expires_at=timezone.now())
                thieves.append(jobs.take(Stage.INDEX))
            return super().embed_documents(texts)

    slow = Stolen()
    monkeypatch.setattr(registry, "get_embedder", lambda: slow)
    index(document)
    assert slow.batches == [EMBED_BATCH]
    assert rows(tenant) == (0, 0)
    assert jobs.renew(thieves[0])


def test_an_unforeseen_error_is_an_attempt_and_its_name_the_reason(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, ["text"])
    embedder.failures = [KeyError("words of the document")] * 9
    for _ in range(jobs.ATTEMPTS_MAX):
        with pytest.raises(KeyError):
            index(document)
        Job.objects.filter(document=document).update(lease_expires_at=timezone.now())
    index(document)
    failed = reload(document)
    assert (failed.state, failed.error_code) == (DocumentState.FAILED, "kept_crashing")
    assert "(KeyError)" in failed.error_message
    assert "words" not in failed.error_message


def test_an_embedder_that_refuses_the_request_is_not_asked_again(
    collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, ["text"])
    embedder.failures = [errors.Unauthorised("The key is wrong.")]
    assert index(document) == []
    assert reload(document).error_code == "embedder_unauthorised"


def test_a_document_deleted_meanwhile_ends_quietly(
    tenant: Tenant, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = make_document(collection, made_up_texts(3))

    class Deleting(WordEmbedder):
        def embed_documents(self, texts):  # type: ignore[no-untyped-def]
            delete_document(document)
            return super().embed_documents(texts)

    monkeypatch.setattr(registry, "get_embedder", Deleting)
    index(document)
    assert rows(tenant) == (0, 0)
    span = Span.objects.get(trace_id=document.id)
    assert (span.status, span.error_code) == ("skipped", "document_gone")


def test_only_its_own_tenant_gets_rows(collection: Collection, embedder: WordEmbedder) -> None:
    document = make_document(collection, ["text"])
    rival = Tenant.objects.create(slug="rival", name="Rival")
    index_next()
    assert reload(document).state == DocumentState.READY
    assert rows(rival) == (0, 0)


def test_no_work_is_no_error(tenant: Tenant, embedder: WordEmbedder) -> None:
    assert not index_next()
    assert embedder.batches == []


def test_another_model_gets_an_index_beside_the_active_one(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    index(make_document(collection, ["first"]))
    embedder.model_id = "other"
    index(make_document(collection, ["second"]))
    active = {row.model_id: row.active for row in EmbeddingIndex.objects.filter(tenant=tenant)}
    assert active == {"words": True, "other": False}


@pytest.mark.parametrize(
    "text", ["a" * 100_000, "'; DROP TABLE x; --", "\\N\t\\.\n{1:2}/3", "🎉", "𝒳 ½ ﷺ", "\x01\x1f"]
)
def test_hostile_text_is_indexed(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder, text: str
) -> None:
    document = make_document(collection, [text], heading=text[:500])
    index(document)
    assert reload(document).state == DocumentState.READY
    assert rows(tenant) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_one_of_two_workers_does_the_work(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, made_up_texts(20))

    def work() -> None:
        try:
            index(document)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert embedder.batches == [20]
    assert rows(tenant) == (20, 20)
    assert reload(document).state == DocumentState.READY
