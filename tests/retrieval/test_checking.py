"""fsck's checks of the search tables, and the command."""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import DjangoAssertNumQueries, Settings

from apps.documents import jobs
from apps.documents.checking import Finding, Options
from apps.documents.files import storage_key
from apps.documents.models import (
    Chunk,
    Collection,
    Document,
    DocumentState,
    Job,
    Page,
    Stage,
)
from apps.retrieval import checking, staging
from apps.retrieval.indexing import index_next
from apps.retrieval.management.commands import fsck as fsck_command
from apps.retrieval.models import (
    ChunkTerms,
    ChunkVector,
    CollectionStatistics,
    EmbeddingIndex,
    StagedChunk,
    TermFrequency,
)
from apps.retrieval.rows import term_rows
from apps.retrieval.texts import indexed_text
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import WordEmbedder, make_collection, make_document
from tests.retrieval.test_bm25 import made_up_texts

pytestmark = pytest.mark.django_db


def findings(tenant: Tenant, *, deep: bool = True) -> list[Finding]:
    return [
        finding for check in checking.CHECKS for finding in check(tenant.id, Options(deep=deep))
    ]


def kinds(tenant: Tenant) -> list[str]:
    return [finding.kind for finding in findings(tenant)]


def repair(tenant: Tenant) -> None:
    for finding in findings(tenant):
        assert finding.repair is not None
        assert finding.repair()


def reload(document: Document) -> Document:
    with tenant_scope(document.tenant_id):
        return Document.objects.get(tenant_id=document.tenant_id, id=document.id)


def change(document: Document, **fields: object) -> None:
    with tenant_scope(document.tenant_id):
        Document.objects.filter(id=document.id).update(**fields)


@pytest.fixture
def ready(collection: Collection, embedder: WordEmbedder) -> Callable[..., Document]:
    """An indexed document, one chunk a text."""

    def make(texts: Sequence[str] = (), into: Collection = collection) -> Document:
        document = make_document(into, texts or made_up_texts(5))
        index_next()
        return reload(document)

    return make


Ready = Callable[..., Document]


def test_sound_search_tables_have_no_findings(ready: Ready, tenant: Tenant) -> None:
    ready()
    ready(["one"])
    assert kinds(tenant) == []


@pytest.mark.parametrize("model", [ChunkVector, ChunkTerms])
def test_a_chunk_without_a_search_row_has_its_document_indexed_again(
    ready: Ready, tenant: Tenant, model: type[ChunkVector | ChunkTerms]
) -> None:
    sound, document = ready(), ready()
    row = model.objects.filter(document=document).first()
    assert row is not None
    model.objects.filter(id=row.id).delete()
    assert kinds(tenant) == ["unfindable"]
    repair(tenant)
    assert reload(document).state == DocumentState.INDEXING
    index_next()
    assert reload(document).state == DocumentState.READY
    assert reload(sound).state == DocumentState.READY
    assert kinds(tenant) == []


def test_repairing_twice_makes_one_job(ready: Ready, tenant: Tenant) -> None:
    ready()
    ChunkVector.objects.all().delete()
    [finding] = findings(tenant)
    assert finding.repair is not None
    assert finding.repair()
    fence = Job.objects.get().id
    assert finding.repair()
    assert Job.objects.get().id == fence


def test_what_was_indexed_meanwhile_is_left_alone(ready: Ready, tenant: Tenant) -> None:
    document = ready()
    rows = list(ChunkVector.objects.all())
    ChunkVector.objects.all().delete()
    [finding] = findings(tenant)
    ChunkVector.objects.bulk_create(rows)
    assert finding.repair is not None
    assert finding.repair()
    assert reload(document).state == DocumentState.READY


def test_vectors_of_another_model_are_reported(ready: Ready, tenant: Tenant) -> None:
    ready()
    EmbeddingIndex.objects.update(active=False)
    EmbeddingIndex.objects.create(
        tenant=tenant, model_id="newer", dimensions=8, chunker_version=1, active=True
    )
    [finding] = findings(tenant)
    assert (finding.kind, finding.repair) == ("other_index", None)


@pytest.mark.parametrize("model", [ChunkVector, ChunkTerms])
def test_rows_of_another_documents_chunks_are_replaced(
    ready: Ready, tenant: Tenant, model: type[ChunkVector | ChunkTerms]
) -> None:
    first, second = ready(), ready()
    row = model.objects.filter(document=first).first()
    assert row is not None
    model.objects.filter(id=row.id).update(document=second)
    assert "misplaced_rows" in kinds(tenant)
    repair(tenant)
    while index_next():
        pass
    repair(tenant)
    while index_next():
        pass
    assert kinds(tenant) == []
    assert {reload(each).state for each in (first, second)} == {DocumentState.READY}


def test_rows_under_another_collection_are_replaced(
    ready: Ready, tenant: Tenant, collection: Collection
) -> None:
    ready()
    other = make_collection(tenant, "Other")
    ChunkVector.objects.filter(collection=collection).update(collection=other)
    assert kinds(tenant) == ["misplaced_rows"]
    repair(tenant)
    index_next()
    assert kinds(tenant) == []
    assert set(ChunkVector.objects.values_list("collection_id", flat=True)) == {collection.id}


@pytest.mark.parametrize("state", [DocumentState.FAILED, DocumentState.SUPERSEDED])
def test_rows_of_a_document_that_nobody_is_to_find_are_removed(
    ready: Ready, tenant: Tenant, state: DocumentState
) -> None:
    change(ready(), state=state)
    assert kinds(tenant) == ["needless_rows"]
    repair(tenant)
    assert kinds(tenant) == []
    assert not ChunkVector.objects.exists()
    assert not TermFrequency.objects.exists()


def test_rows_of_a_document_that_never_was_ready_are_removed(ready: Ready, tenant: Tenant) -> None:
    document = ready()
    change(document, state=DocumentState.INDEXING, ready_at=None)
    assert kinds(tenant) == ["needless_rows"]
    repair(tenant)
    assert kinds(tenant) == []


def test_a_document_that_is_read_again_keeps_its_rows(ready: Ready, tenant: Tenant) -> None:
    change(ready(), state=DocumentState.RECEIVED)
    assert kinds(tenant) == []


def stage(document: Document) -> None:
    index = EmbeddingIndex.objects.get(tenant=document.tenant_id)
    with tenant_scope(document.tenant_id):
        chunks = list(Chunk.objects.filter(document=document))
        texts = [indexed_text(chunk) for chunk in chunks]
        vectors = WordEmbedder().embed_documents(texts)
        staging.stage(document, index, chunks, list(vectors), term_rows(document, chunks, texts))


def test_staged_rows_of_a_finished_document_are_removed(ready: Ready, tenant: Tenant) -> None:
    stage(ready())
    assert kinds(tenant) == ["staged_rows"]
    repair(tenant)
    assert kinds(tenant) == []
    assert not StagedChunk.objects.exists()


def test_staged_rows_of_an_unfinished_document_stay(
    ready: Ready, collection: Collection, tenant: Tenant
) -> None:
    ready()
    stage(make_document(collection, made_up_texts(3)))
    assert kinds(tenant) == []


def test_vectors_that_are_no_unit_vectors_are_made_anew(ready: Ready, tenant: Tenant) -> None:
    ready()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE search.chunkvector SET embedding = embedding * embedding "
            "WHERE id = (SELECT min(id) FROM search.chunkvector)"
        )
    assert findings(tenant, deep=False) == []
    assert kinds(tenant) == ["bad_vectors"]
    repair(tenant)
    index_next()
    assert kinds(tenant) == []


def miscount_chunks() -> None:
    CollectionStatistics.objects.update(chunk_count=99)


def miscount_length() -> None:
    CollectionStatistics.objects.update(total_length=1)


def lose_the_statistics() -> None:
    CollectionStatistics.objects.all().delete()


def miscount_a_term() -> None:
    TermFrequency.objects.update(chunk_count=99)


def lose_a_term() -> None:
    TermFrequency.objects.order_by("id")[0].delete()


@pytest.mark.parametrize(
    "damage",
    [miscount_chunks, miscount_length, lose_the_statistics, miscount_a_term, lose_a_term],
)
def test_statistics_are_counted_anew(
    ready: Ready, tenant: Tenant, damage: Callable[[], None]
) -> None:
    ready()
    before = statistics()
    damage()
    assert kinds(tenant) == ["wrong_statistics"]
    repair(tenant)
    assert kinds(tenant) == []
    assert statistics() == before


def test_a_term_of_nowhere_is_removed(ready: Ready, tenant: Tenant) -> None:
    document = ready()
    TermFrequency.objects.create(
        tenant=tenant, collection_id=document.collection_id, term=1, chunk_count=1
    )
    assert kinds(tenant) == ["wrong_statistics"]
    repair(tenant)
    assert kinds(tenant) == []


def statistics() -> tuple[object, ...]:
    counts = CollectionStatistics.objects.values_list("collection", "chunk_count", "total_length")
    terms = TermFrequency.objects.order_by("term").values_list("collection", "term", "chunk_count")
    return list(counts), list(terms)


def fsck(*arguments: str) -> tuple[int, str]:
    """The exit status and what was printed."""
    out = io.StringIO()
    try:
        call_command("fsck", *arguments, stdout=out)
    except SystemExit as exc:
        return int(str(exc.code)), out.getvalue()
    return 0, out.getvalue()


@pytest.fixture
def sound(ready: Ready, tenant: Tenant, tmp_path: Path, settings: Settings) -> Document:
    """A document that every check finds in order, its stored file left out."""
    settings.MEDIA_ROOT = tmp_path
    document = ready()
    with tenant_scope(tenant.id):
        text = ""
        for chunk in Chunk.objects.filter(document=document).order_by("ordinal"):
            Page.objects.create(
                tenant=tenant,
                document=document,
                number=chunk.ordinal + 1,
                text=chunk.text,
                char_start=len(text),
            )
            Chunk.objects.filter(id=chunk.id).update(
                char_start=len(text), char_end=len(text) + len(chunk.text)
            )
            text += chunk.text
    change(document, page_count=5, state=DocumentState.READY)
    store(document)
    return document


def store(document: Document) -> None:
    key = storage_key(document.tenant_id, document.id, document.sha256)
    change(document, storage_key=default_storage.save(key, ContentFile(b"x")))


def test_the_command_says_that_all_is_well(sound: Document) -> None:
    code, said = fsck()
    assert code == 0
    assert said.startswith("Clean (")


def test_the_command_says_what_is_wrong_and_how_to_repair_it(sound: Document) -> None:
    ChunkVector.objects.all().delete()
    code, said = fsck("--tenant", "acme")
    assert code == 1
    assert f"unfindable {sound.id} in {sound.tenant_id}: Of 5 passages, 5 have no vector" in said
    assert "--repair" in said


def test_the_command_repairs(sound: Document) -> None:
    ChunkVector.objects.all().delete()
    code, said = fsck("--repair")
    assert code == 0
    assert "1 found, 1 repaired, 0 left" in said
    index_next()
    assert fsck()[0] == 0


def test_the_command_prints_json(sound: Document) -> None:
    CollectionStatistics.objects.update(chunk_count=99)
    code, said = fsck("--json")
    report = json.loads(said)
    assert code == 1
    assert report["counts"] == {"wrong_statistics": 1}
    assert (report["found"], report["repaired"], report["left"]) == (1, 0, 1)
    [finding] = report["findings"]
    assert finding["subject"] == str(sound.collection_id)
    assert (finding["repairable"], finding["outcome"]) == (True, "repairable")


def test_what_cannot_be_repaired_is_left(sound: Document) -> None:
    default_storage.delete(reload(sound).storage_key)
    code, said = fsck("--repair")
    assert code == 1
    assert "Only a person can repair this." in said


@pytest.mark.parametrize("arguments", [["--tenant", "nobody"], ["--grace-s", "-1"]])
def test_wrong_use_is_said_so(tenant: Tenant, arguments: list[str]) -> None:
    with pytest.raises(CommandError) as said:
        call_command("fsck", *arguments)
    assert said.value.returncode == 2


def test_checks_of_a_large_corpus_cost_few_queries(
    ready: Ready, tenant: Tenant, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(5):
        ready()
    with django_assert_max_num_queries(60):
        assert kinds(tenant) == []


def test_an_index_job_takes_what_fsck_sent(ready: Ready, tenant: Tenant) -> None:
    ready()
    ChunkTerms.objects.all().delete()
    repair(tenant)
    claim = jobs.take(Stage.INDEX)
    assert claim is not None
    assert claim.attempt == 1


def test_a_check_that_takes_its_time_says_so(
    sound: Document, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
        time.sleep(0.2)
        return iter(())

    monkeypatch.setattr(fsck_command, "_QUIET_S", 0.05)
    monkeypatch.setattr(checking, "CHECKS", (slow,))
    assert fsck()[0] == 0
    assert "acme: slow…\n" in capsys.readouterr().err
