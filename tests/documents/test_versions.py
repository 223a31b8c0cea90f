"""Another content under the same path: the old one answers until the new one is ready."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import pytest
from django.db import connection
from pytest_django import Settings

from apps.documents import jobs, services
from apps.documents.errors import DuplicateDocument, NotRetryable
from apps.documents.ingestion import ingest_next
from apps.documents.models import (
    Chunk,
    Collection,
    Document,
    DocumentState,
    DocumentUse,
    Job,
    Page,
    Stage,
)
from apps.inference import errors, registry
from apps.retrieval import indexing
from apps.retrieval.indexing import index_next
from apps.retrieval.models import ChunkTerms, ChunkVector, CollectionStatistics
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.documents.conftest import Upload, reload
from tests.documents.test_jobs import at_once
from tests.retrieval.corpus import WordEmbedder

pytestmark = pytest.mark.django_db

FIRST, SECOND, THIRD = (b"The harbour opens at %s.\n" % hour for hour in (b"six", b"ten", b"two"))


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch) -> WordEmbedder:
    stand_in = WordEmbedder()
    monkeypatch.setattr(registry, "get_embedder", lambda: stand_in)
    return stand_in


def work() -> None:
    """Until nothing is left to be done."""
    while ingest_next() or index_next(sleep=lambda _: None):
        pass


def ready(document: Document) -> Document:
    work()
    assert reload(document).state == DocumentState.READY
    return document


def states(*documents: Document) -> list[str]:
    return [reload(document).state for document in documents]


def found(tenant: Tenant) -> set[uuid.UUID]:
    """Documents that either search would find something of."""
    vectors = ChunkVector.objects.filter(tenant=tenant).values_list("document_id", flat=True)
    terms = ChunkTerms.objects.filter(tenant=tenant).values_list("document_id", flat=True)
    assert set(vectors) == set(terms)
    return set(vectors)


def test_the_old_version_answers_until_the_new_one_is_ready(upload: Upload, tenant: Tenant) -> None:
    old = ready(upload(FIRST))
    new = upload(SECOND)
    assert (old.version, reload(new).version, new.path) == (1, 2, old.path)
    ingest_next()
    assert found(tenant) == {old.id}
    work()
    assert found(tenant) == {new.id}
    assert states(old, new) == ["superseded", "ready"]


def test_what_old_answers_cited_is_kept(upload: Upload, tenant: Tenant, settings: Settings) -> None:
    old = ready(upload(FIRST))
    ready(upload(SECOND))
    with tenant_scope(tenant.id):
        assert Page.objects.get(document=old).text == FIRST.decode()
        assert Chunk.objects.get(document=old).text == FIRST.decode().strip()
    assert (Path(settings.MEDIA_ROOT) / old.storage_key).read_bytes() == FIRST


def test_a_new_version_that_fails_leaves_the_old_one_answering(
    upload: Upload, tenant: Tenant
) -> None:
    old = ready(upload(FIRST))
    broken = upload(b"PK\x03\x04rest")
    work()
    assert states(old, broken) == ["ready", "failed"]
    assert found(tenant) == {old.id}
    new = ready(upload(THIRD))
    assert reload(new).version == 3
    assert states(old, broken) == ["superseded", "superseded"]
    with pytest.raises(NotRetryable):
        services.retry_document(tenant=tenant, document=broken, actor=None)


def test_one_that_cannot_be_embedded_leaves_the_old_one_answering(
    upload: Upload, tenant: Tenant, embedder: WordEmbedder
) -> None:
    old = ready(upload(FIRST))
    new = upload(SECOND)
    embedder.failures = [errors.Unauthorised("The key is wrong.")]
    work()
    assert states(old, new) == ["ready", "failed"]
    assert found(tenant) == {old.id}
    with tenant_scope(tenant.id):
        assert not Chunk.objects.filter(document=new).exists()


def test_a_later_version_that_is_ready_first_wins(upload: Upload, tenant: Tenant) -> None:
    documents = [ready(upload(FIRST)), upload(SECOND), upload(THIRD)]
    Job.objects.filter(document=documents[1]).update(turn=1000)
    ingest_next()
    slow = jobs.take(Stage.INGEST)  # the second version's
    assert slow is not None
    index_next()
    assert states(*documents) == ["superseded", "superseded", "ready"]
    assert not jobs.renew(slow)
    assert jobs.begin(slow, DocumentState.PARSING) is None
    work()
    assert found(tenant) == {documents[2].id}


def test_bytes_of_long_ago_come_back_as_the_next_version(upload: Upload, tenant: Tenant) -> None:
    old, new = ready(upload(FIRST)), ready(upload(SECOND))
    back = ready(upload(FIRST))
    assert reload(back).version == 3
    assert found(tenant) == {back.id}
    assert states(old, new) == ["superseded", "superseded"]


def test_the_answering_bytes_sent_again_withdraw_what_came_after(
    upload: Upload, tenant: Tenant
) -> None:
    """A file that was changed and changed back ends as it is, not as it was in between."""
    old = ready(upload(FIRST))
    between = upload(SECOND)
    with pytest.raises(DuplicateDocument):
        upload(FIRST)
    work()
    assert states(old, between) == ["ready", "superseded"]
    assert found(tenant) == {old.id}


def test_nothing_is_withdrawn_for_the_same_bytes_under_another_path(
    upload: Upload, tenant: Tenant
) -> None:
    old = ready(upload(FIRST))
    new = upload(SECOND)
    with pytest.raises(DuplicateDocument):
        upload(FIRST, "copy.txt")
    assert ready(new)
    assert states(old) == ["superseded"]


def test_deleting_removes_all_versions_and_their_files(
    upload: Upload, tenant: Tenant, settings: Settings, django_capture_on_commit_callbacks
) -> None:
    old, new = ready(upload(FIRST)), ready(upload(SECOND))
    other = ready(upload(THIRD, "other.txt"))
    with django_capture_on_commit_callbacks(execute=True):
        services.delete_document(tenant=tenant, document=reload(new), actor=None)
    files = [path.name for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()]
    assert len(files) == 1
    assert other.sha256 in files[0]
    assert found(tenant) == {other.id}
    with tenant_scope(tenant.id):
        assert not Document.objects.filter(id__in=[old.id, new.id]).exists()


def test_paths_tell_documents_apart_not_names(upload: Upload, tenant: Tenant) -> None:
    one, two = ready(upload(FIRST, "a/notes.txt")), ready(upload(SECOND, "b/notes.txt"))
    assert (one.name, two.name) == ("notes.txt", "notes.txt")
    assert (reload(two).version, found(tenant)) == (1, {one.id, two.id})


@pytest.mark.django_db(transaction=True)
def test_versions_sent_at_once_are_numbered(tenant: Tenant, collection: Collection) -> None:
    def send(data: bytes) -> Document:
        return services.receive_upload(
            tenant=tenant, collection=collection, user=None, path="a.txt", file=BytesIO(data)
        )

    sent = at_once([lambda n=n: send(b"text %d" % n) for n in range(4)])  # type: ignore[misc]
    assert sorted(reload(document).version for document in sent) == [1, 2, 3, 4]
    work()
    last = max(sent, key=lambda document: document.version)
    assert found(tenant) == {last.id}
    assert sorted(states(*sent)) == ["ready", "superseded", "superseded", "superseded"]


@pytest.mark.django_db(transaction=True)
def test_the_same_bytes_sent_at_once_are_one_document(
    tenant: Tenant, collection: Collection, settings: Settings
) -> None:
    def send() -> bool:
        try:
            services.receive_upload(
                tenant=tenant, collection=collection, user=None, path="a.txt", file=BytesIO(FIRST)
            )
        except DuplicateDocument:
            return False
        return True

    assert sorted(at_once([send] * 4)) == [False, False, False, True]
    assert len([path for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()]) == 1
    work()
    assert len(found(tenant)) == 1


@pytest.mark.django_db(transaction=True)
def test_a_reader_sees_one_version_at_every_moment(upload: Upload, tenant: Tenant) -> None:
    ready(upload(FIRST))
    over = threading.Event()
    seen: list[int] = []

    def look() -> None:
        try:
            while not over.is_set():
                with connection.cursor() as cursor:
                    cursor.execute(
                        "SELECT count(DISTINCT document_id) FROM retrieval_chunkterms "
                        "WHERE tenant_id = %s",
                        [tenant.id],
                    )
                    seen.append(cursor.fetchone()[0])
        finally:
            connection.close()

    reader = threading.Thread(target=look)
    reader.start()
    for n in range(5):
        ready(upload(b"The harbour opens at %d.\n" % n))
    over.set()
    reader.join()
    assert len(seen) > 20
    assert set(seen) == {1}


# Deletion at every moment

Act = Callable[[Tenant, Collection, Document], object]
DELETIONS: dict[str, Act] = {
    "document": lambda tenant, _, document: services.delete_document(
        tenant=tenant, document=document, actor=None
    ),
    "collection": lambda tenant, collection, _: services.delete_collection(
        tenant=tenant, collection=collection, actor=None
    ),
    "tenant": lambda tenant, *_: services.delete_tenant(tenant=tenant, actor=None),
}


@pytest.mark.parametrize("what", sorted(DELETIONS))
@pytest.mark.parametrize("stage", ["parsed", "embedded", "waiting", "ready"])
@pytest.mark.parametrize("pieces", [False, True])
def test_deleted_while_it_is_worked_on_nothing_is_left(
    upload: Upload,
    tenant: Tenant,
    collection: Collection,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    embedder: WordEmbedder,
    django_capture_on_commit_callbacks,
    what: str,
    stage: str,
    pieces: bool,
) -> None:
    if pieces:
        monkeypatch.setattr(indexing, "STAGE_ABOVE", 2)
        monkeypatch.setattr(indexing, "PIECE_CHUNKS", 2)
    document = upload(b"\n\n".join(b"# Part %d\n\nIts words.\n" % n for n in range(6)), "a.md")

    def delete() -> None:
        with django_capture_on_commit_callbacks(execute=True):
            DELETIONS[what](tenant, collection, document)

    if stage == "parsed":
        claim = jobs.take(Stage.INGEST)
        assert claim is not None
        jobs.begin(claim, DocumentState.PARSING)
        delete()
        assert not jobs.renew(claim)
    elif stage == "embedded":
        embed = embedder.embed_documents
        ingest_next()

        def delete_then_embed(texts: Sequence[str]) -> object:
            if len(embedder.batches) == (1 if pieces else 0):
                delete()
            return embed(texts)

        embedder.embed_documents = delete_then_embed  # type: ignore[assignment,method-assign]
        index_next()
    else:
        if stage == "ready":
            work()
        delete()
    work()
    assert left_over(tenant) == {}
    assert [path for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()] == []


def collections(tenant: Tenant) -> int:
    with tenant_scope(tenant.id):
        return Collection.objects.count()


def left_over(tenant: Tenant) -> dict[str, int]:
    """Rows of every table of documents and retrieval, but what a living tenant keeps."""
    kept = {"documents_collection", "retrieval_embeddingindex", "retrieval_embeddingmodel"}
    if not CollectionStatistics.objects.filter(tenant=tenant).exclude(chunk_count=0).exists():
        kept.add("retrieval_collectionstatistics" if collections(tenant) else "")
    if collections(tenant):
        kept.add("documents_collectionversion")  # or the number would begin anew
    counted = DocumentUse.objects.filter(tenant=tenant).exclude(documents=0, bytes=0)
    if Tenant.objects.filter(id=tenant.id).exists() and not counted.exists():
        kept.add("documents_documentuse")
    counts = {}
    with tenant_scope(tenant.id), connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table.startswith(("documents_", "retrieval_")) and table not in kept:
                cursor.execute(f"SELECT count(*) FROM {table} WHERE tenant_id = %s", [tenant.id])  # noqa: S608
                counts[table] = int(cursor.fetchone()[0])
    return {table: count for table, count in counts.items() if count}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("what", sorted(DELETIONS))
def test_workers_uploads_retries_and_deletions_at_once_do_not_deadlock(
    tenant: Tenant, collection: Collection, settings: Settings, what: str
) -> None:
    """Every error of any of them is the test's failure, PostgreSQL's word of a deadlock too."""
    settings.TENANT_JOBS_MAX = 9
    over = threading.Event()
    numbers = iter(range(10**6))

    def send() -> None:
        while not over.is_set():
            n = next(numbers)
            data = b"PK\x03\x04%d" % n if n % 3 == 0 else b"Text number %d.\n" % n
            try:
                services.receive_upload(
                    tenant=tenant,
                    collection=collection,
                    user=None,
                    path=f"{n % 4}.txt",
                    file=BytesIO(data),
                )
            except Exception:
                if what == "document":
                    raise
                return  # the collection is gone

    def serve() -> None:
        while not over.is_set():
            if not (index_next(sleep=lambda _: None) or ingest_next()):
                time.sleep(0.01)

    def retry() -> None:
        while not over.is_set():
            services.retry_failed(tenant=tenant, collection=collection, actor=None)
            time.sleep(0.01)

    def delete() -> None:
        for _ in range(12):
            time.sleep(0.1)
            with tenant_scope(tenant.id):
                document = Document.objects.order_by("?").first()
            if document is not None:
                DELETIONS["document"](tenant, collection, document)
        DELETIONS[what](tenant, collection, Document(collection_id=collection.id, tenant=tenant))
        over.set()

    at_once([send, send, serve, serve, serve, retry, delete])
    if what != "document":
        work()
        assert left_over(tenant) == {}
