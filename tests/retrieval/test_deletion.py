"""Deleting a document, a collection or a tenant, at every stage of ingestion, leaves nothing.

Every table of the database is searched for the ids of what is gone, and every stored file's path;
and fsck finds nothing. What stays on purpose: spans and the audit trail, which hold no text.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from apps.chat.models import Citation
from apps.documents import files, ingestion, services
from apps.documents.checking import Options
from apps.documents.ingestion import ingest_next
from apps.documents.models import Batch, Collection, Document, DocumentState, Job
from apps.documents.previews import preview_folder
from apps.documents.reading import Passage
from apps.inference import registry
from apps.inference.types import Vectors
from apps.retrieval import checking, indexing
from apps.retrieval.indexing import index_next
from apps.retrieval.models import StagedChunk
from apps.tenants.models import Tenant
from apps.tenants.scope import _set_tenant, tenant_scope
from tests.cast import Cast
from tests.retrieval.corpus import WordEmbedder, write_rows
from tests.world import furnish

pytestmark = pytest.mark.django_db

STAYS = {
    "telemetry_span": "figures of the past; no text",
    "gateway_ledgerentry": "what was spent was spent; no text",
    "gateway_budgetcounter": "the same, of a month or a day",
    "telemetry_auditevent": "what people did; no text",
    "evals_answerrun": "how a gate came out, as figures and identifiers",
    "evals_runquestion": "which passages a finished run found, as identifiers",
}
# A conversation remembers which collections its next question is to search, as identifiers.
MAY_NAME_A_COLLECTION = "chat_conversation"
TEXT = b"\n\n".join(b"# Part %d\n\nWords of part %d, and a few more." % (n, n) for n in range(9))

Delete = Callable[["World"], None]


@dataclass
class World:
    """A tenant with one of everything, and a document on its way."""

    tenant: Tenant
    collection: Collection
    document: Document

    def ids(self, what: str) -> list[uuid.UUID]:
        """What must not be found any more once `what` is deleted."""
        ids = [self.document.id]
        if what != "document":
            ids.append(self.collection.id)
        if what == "tenant":
            ids.append(self.tenant.id)
        return ids


@pytest.fixture
def world(cast: Cast, settings: Settings, tmp_path: Path) -> World:
    settings.MEDIA_ROOT = tmp_path
    tenant = cast.acme
    named = furnish(tenant, manager=cast.alice, member=cast.bob)
    with tenant_scope(tenant.id):
        old = Document.objects.get(id=named["document_id"])
        Job.objects.all().delete()
        collection = Collection.objects.get(id=old.collection_id)
        batch = Batch.objects.create(tenant=tenant, collection=collection, source="upload")
    write_rows(old)
    document = services.receive_upload(
        tenant=tenant,
        collection=collection,
        user=cast.alice,
        path="guide.md",
        file=BytesIO(TEXT),
        batch=batch,
    )
    with tenant_scope(tenant.id):
        Citation.objects.update(document=document)
    keep_more_files(document)
    return World(tenant, collection, document)


def keep_more_files(document: Document) -> None:
    """An unlocked copy and a page image."""
    key = files.store_bytes(TEXT, files.storage_key(document.tenant_id, document.id, "unlocked"))
    with tenant_scope(document.tenant_id):
        Document.objects.filter(id=document.id).update(unlocked_key=key)
    folder = preview_folder(document.tenant_id, document.id)
    folder.mkdir(parents=True)
    (folder / "1.png").write_bytes(b"png")


def delete_the_document(world: World) -> None:
    services.delete_document(tenant=world.tenant, document=world.document, actor=None)


def delete_the_collection(world: World) -> None:
    services.delete_collection(tenant=world.tenant, collection=world.collection, actor=None)


def delete_the_tenant(world: World) -> None:
    services.delete_tenant(tenant=world.tenant, actor=None)


DELETIONS: dict[str, Delete] = {
    "document": delete_the_document,
    "collection": delete_the_collection,
    "tenant": delete_the_tenant,
}


class Once:
    """Deletes at the `nth` call."""

    def __init__(self, world: World, delete: Delete, nth: int = 1) -> None:
        self.world, self.delete, self.left = world, delete, nth

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.delete(self.world)


class DeletingEmbedder(WordEmbedder):
    """Deletes while it is asked for vectors."""

    def __init__(self, once: Once) -> None:
        super().__init__()
        self.once = once

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.once()
        return super().embed_documents(texts)


def when_received(world: World, delete: Delete, patch: pytest.MonkeyPatch) -> None:
    delete(world)


def while_parsed(world: World, delete: Delete, patch: pytest.MonkeyPatch) -> None:
    """The sandbox has said something, and nothing is written yet."""
    stream = ingestion.run_sandboxed_stream

    def deleting(*args: Any, **kwargs: Any) -> Iterator[Any]:
        for number, item in enumerate(stream(*args, **kwargs)):
            if number == 0:
                delete(world)
            yield item

    patch.setattr(ingestion, "run_sandboxed_stream", deleting)
    assert ingest_next()


def between_sections(world: World, delete: Delete, patch: pytest.MonkeyPatch) -> None:
    def sections(*args: Any, **kwargs: Any) -> Iterator[dict[str, Any]]:
        yield section()
        yield section()
        delete(world)
        yield section()

    patch.setattr(ingestion, "run_sandboxed_stream", sections)
    assert ingest_next()


def while_indexed(world: World, delete: Delete, patch: pytest.MonkeyPatch) -> None:
    assert ingest_next()
    embedder = DeletingEmbedder(Once(world, delete))
    patch.setattr(registry, "get_embedder", lambda: embedder)
    assert index_next()
    assert embedder.once.left == 0


def when_staged(world: World, delete: Delete, patch: pytest.MonkeyPatch) -> None:
    """Some of its rows are staged, and more are being made."""
    patch.setattr(indexing, "STAGE_ABOVE", 2)
    patch.setattr(indexing, "PIECE_CHUNKS", 2)
    assert ingest_next()
    staged = []

    def delete_and_look(world: World) -> None:
        staged.append(StagedChunk.objects.filter(document=world.document).count())
        delete(world)

    embedder = DeletingEmbedder(Once(world, delete_and_look, nth=2))
    patch.setattr(registry, "get_embedder", lambda: embedder)
    assert index_next()
    assert staged == [2]


def when_ready(world: World, delete: Delete, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry, "get_embedder", WordEmbedder)
    assert ingest_next()
    assert index_next()
    with tenant_scope(world.tenant.id):
        assert Document.objects.get(id=world.document.id).state == DocumentState.READY
    delete(world)


def section() -> dict[str, Any]:
    text = "Words of a section."
    passage = Passage(text, 0, len(text), "", 0, 0, 4)
    return {
        "kind": "text/markdown",
        "language": "en",
        "pages": [text],
        "passages": [astuple(passage)],
        "progress": 0.3,
        "parse_ms": 1.0,
        "chunk_ms": 1.0,
    }


STAGES = [
    when_received,
    while_parsed,
    between_sections,
    while_indexed,
    when_staged,
    when_ready,
]


@pytest.mark.parametrize("what", DELETIONS)
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_a_deletion_leaves_nothing(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    django_capture_on_commit_callbacks: Any,
    stage: Callable[..., None],
    what: str,
) -> None:
    assert len(rows_that_name(world, world.ids("tenant"))) > 10
    with django_capture_on_commit_callbacks(execute=True):
        stage(world, DELETIONS[what], monkeypatch)
    gone = world.ids(what)
    assert rows_that_name(world, gone) == set()
    assert paths_that_name(Path(settings.MEDIA_ROOT), gone) == []
    about = [f for f in checking.check(Options(deep=True, grace_s=-1)) if names(f.subject, gone)]
    assert about == []
    assert rows_that_name(world, [world.tenant.id]) == set() if what == "tenant" else True


def rows_that_name(world: World, ids: Sequence[uuid.UUID]) -> set[str]:
    """Tables in which a row has one of the ids anywhere: in a key, in JSON, in a text."""
    found = set()
    with connection.cursor() as cursor:
        _set_tenant(str(world.tenant.id))  # shows what row-level security would hide
        cursor.execute(
            "SELECT CASE table_schema WHEN 'public' THEN '' ELSE table_schema || '.' END "
            "|| table_name FROM information_schema.tables "
            "WHERE table_schema IN ('public', 'search') AND table_type = 'BASE TABLE'"
        )
        for (table,) in cursor.fetchall():
            if table in STAYS:
                continue
            left_out = world.collection.id if table == MAY_NAME_A_COLLECTION else None
            sought = [each for each in ids if each != left_out]
            likes = [f"%{form}%" for each in sought for form in (str(each), each.hex)]
            query = f"SELECT EXISTS (SELECT FROM {table} AS row WHERE row::text LIKE ANY(%s))"  # noqa: S608
            cursor.execute(query, [likes])
            if cursor.fetchone()[0]:
                found.add(table)
        _set_tenant("")
    return found


def paths_that_name(root: Path, ids: Sequence[uuid.UUID]) -> list[str]:
    return [str(path) for path in root.rglob("*") if path.is_file() and names(str(path), ids)]


def names(text: str, ids: Sequence[uuid.UUID]) -> bool:
    return any(str(each) in text or each.hex in text for each in ids)


def test_the_search_of_all_tables_sees_every_kind(world: World) -> None:
    """Else the tests above would show nothing."""
    seen = rows_that_name(world, [world.document.id])
    assert {"documents_document", "documents_job", "chat_citation"} <= seen
    seen = rows_that_name(world, [world.tenant.id])
    assert {"tenants_membership", "documents_batch", "search.chunkvector_0"} <= seen


def test_the_command_deletes_a_tenant(
    world: World, django_capture_on_commit_callbacks: Any, settings: Settings
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        call_command("delete_tenant", "acme", "--yes")
    assert rows_that_name(world, world.ids("tenant")) == set()
    assert paths_that_name(Path(settings.MEDIA_ROOT), [world.tenant.id]) == []


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda words: monkeypatch.setattr("sys.stdin", StringIO(words))


def test_the_command_says_what_goes_and_asks(world: World, type_in: Callable[[str], None]) -> None:
    type_in("acme\n")
    out = StringIO()
    call_command("delete_tenant", "acme", stdout=out)
    assert "2 documents in 1 collections" in out.getvalue()
    assert not Tenant.objects.filter(slug="acme").exists()


@pytest.mark.parametrize("typed", ["yes\n", ""])
def test_another_answer_deletes_nothing(
    world: World, type_in: Callable[[str], None], typed: str
) -> None:
    type_in(typed)
    with pytest.raises(CommandError, match="Nothing was deleted"):
        call_command("delete_tenant", "acme", stdout=StringIO())
    assert Tenant.objects.filter(slug="acme").exists()


def test_an_unknown_tenant_is_said_so(cast: Cast) -> None:
    with pytest.raises(CommandError, match="There is no tenant 'nobody'"):
        call_command("delete_tenant", "nobody")
