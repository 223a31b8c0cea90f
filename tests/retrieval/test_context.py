"""What stands around the passages that are given."""

from __future__ import annotations

import uuid

import pytest

from apps.documents.models import Chunk, Collection, Document
from apps.retrieval.context import Neighbour, read_neighbours
from apps.retrieval.types import Passage
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import delete_document, make_collection, make_document

pytestmark = pytest.mark.django_db

TEXT = "Zero is first. One comes next. Two is here. Three follows. Four is last."


def add_chunks(
    collection: Collection, *ranges: tuple[int, int], headings: str = "", text: str = TEXT
) -> list[Chunk]:
    """Chunks of a document, `text[start:end]` each; `headings` has a letter a chunk."""
    document = make_document(collection, [text[start:end] for start, end in ranges])
    with tenant_scope(collection.tenant_id):
        chunks = list(Chunk.objects.filter(document=document).order_by("ordinal"))
        for n, (chunk, (start, end)) in enumerate(zip(chunks, ranges, strict=True)):
            chunk.char_start, chunk.char_end = start, end
            chunk.heading_path = headings[n : n + 1]
            chunk.save()
    return chunks


def passage(chunk: Chunk) -> Passage:
    return Passage(
        chunk_id=chunk.id,
        document_id=chunk.document_id,
        document_name="guide.md",
        heading_path=chunk.heading_path,
        text=chunk.text,
        page_first=1,
        page_last=1,
        char_start=chunk.char_start,
        char_end=chunk.char_end,
        score=1.0,
        relevance=1.0,
    )


def around(collection: Collection, *chunks: Chunk) -> list[Neighbour]:
    return read_neighbours(
        tenant_id=collection.tenant_id, passages=[passage(chunk) for chunk in chunks]
    )


def said(neighbours: list[Neighbour]) -> list[tuple[str, bool]]:
    return [(each.text, each.comes_before) for each in neighbours]


def test_what_follows_and_what_leads_is_read(collection: Collection) -> None:
    chunks = add_chunks(collection, (0, 14), (15, 30), (31, 43))
    assert said(around(collection, chunks[1])) == [
        ("Two is here.", False),
        ("Zero is first.", True),
    ]


def test_what_overlaps_is_given_once(collection: Collection) -> None:
    chunks = add_chunks(collection, (0, 30), (15, 43), (31, 58))
    assert said(around(collection, chunks[1])) == [
        ("Three follows.", False),
        ("Zero is first.", True),
    ]


def test_passages_side_by_side_are_not_each_others_neighbours(collection: Collection) -> None:
    chunks = add_chunks(collection, (0, 14), (15, 30), (31, 43), (44, 58))
    assert said(around(collection, chunks[2], chunks[1])) == [
        ("Three follows.", False),
        ("Zero is first.", True),
    ]


def test_a_chunk_between_two_passages_goes_to_the_better(collection: Collection) -> None:
    chunks = add_chunks(collection, (0, 14), (15, 30), (31, 43))
    [between] = around(collection, chunks[2], chunks[0])
    assert (between.passage.chunk_id, between.text) == (chunks[2].id, "One comes next.")


def test_a_chunk_that_reaches_into_another_passage_is_cut_there(collection: Collection) -> None:
    chunks = add_chunks(collection, (0, 14), (15, 43), (31, 58))
    [between] = around(collection, chunks[0], chunks[2])
    assert between.text == "One comes next."


def test_the_same_heading_goes_first_and_another_is_named(collection: Collection) -> None:
    chunks = add_chunks(collection, (0, 14), (15, 30), (31, 43), headings="AAB")
    found = around(collection, chunks[1])
    assert [(each.text, each.heading) for each in found] == [
        ("Zero is first.", ""),
        ("Two is here.", "B"),
    ]


def test_chunks_of_another_generation_are_no_neighbours(collection: Collection) -> None:
    chunks = add_chunks(collection, (0, 14), (15, 30))
    with tenant_scope(collection.tenant_id):
        Chunk.objects.filter(id=chunks[1].id).update(generation=1)
    assert around(collection, chunks[0]) == []


def test_the_first_and_only_chunk_has_none(collection: Collection) -> None:
    assert around(collection, *add_chunks(collection, (0, 14))) == []


def test_no_passages_need_no_scope() -> None:
    assert read_neighbours(tenant_id=uuid.uuid4(), passages=[]) == []


def test_a_document_deleted_meanwhile_has_none(collection: Collection) -> None:
    chunks = add_chunks(collection, (0, 14), (15, 30))
    with tenant_scope(collection.tenant_id):
        document = Document.objects.get(id=chunks[0].document_id)
    delete_document(document)
    assert around(collection, chunks[0]) == []


def test_another_tenant_reads_nothing(collection: Collection) -> None:
    chunks = add_chunks(collection, (0, 14), (15, 30))
    rival = make_collection(Tenant.objects.create(slug="rival", name="Rival"))
    assert around(rival, chunks[0]) == []
