"""Searching some of a collection's documents: both legs find all there is of them."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime

import pytest

from apps.documents.models import Collection, Document, DocumentState
from apps.retrieval import filters
from apps.retrieval.options import SearchFilter, SearchOptions
from apps.retrieval.pipeline import retrieve
from apps.telemetry.hops import Trace
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import make_collection, make_document, write_rows

pytestmark = pytest.mark.django_db

PDF, TEXT = "application/pdf", "text/plain"


def add(collection: Collection, text: str, **values: object) -> Document:
    document = make_document(collection, [text])
    write_rows(document)
    with tenant_scope(collection.tenant_id):
        Document.objects.filter(tenant_id=collection.tenant_id, id=document.id).update(**values)
    return document


@pytest.fixture
def manual(collection: Collection) -> Document:
    return add(
        collection,
        "The warranty of the battery lasts two years.",
        kind=PDF,
        tags=["hardware", "legal"],
        created_at=datetime(2026, 3, 1, 0, 0, tzinfo=UTC),
    )


@pytest.fixture
def note(collection: Collection) -> Document:
    return add(
        collection,
        "The warranty of the printer lasts one year.",
        kind=TEXT,
        tags=["printers"],
        created_at=datetime(2026, 3, 31, 23, 59, 59, tzinfo=UTC),
    )


def resolved(collection: Collection, narrowed: SearchFilter) -> set[uuid.UUID] | None:
    with tenant_scope(collection.tenant_id):
        found = filters.resolve(
            tenant_id=collection.tenant_id, collection_ids=[collection.id], narrowed=narrowed
        )
    return None if found.document_ids is None else set(found.document_ids)


def test_without_a_filter_nothing_is_resolved(collection: Collection, manual: Document) -> None:
    assert resolved(collection, SearchFilter()) is None


@pytest.mark.parametrize(
    ("narrowed", "expected"),
    [
        (SearchFilter(kinds=(PDF,)), {"manual"}),
        (SearchFilter(kinds=(PDF, TEXT)), {"manual", "note"}),
        (SearchFilter(tags=("legal", "printers")), {"manual", "note"}),
        (SearchFilter(tags=("Printers",)), {"note"}),
        (SearchFilter(tags=("printers",), kinds=(PDF,)), set()),
        (SearchFilter(added_from=date(2026, 3, 1), added_to=date(2026, 3, 1)), {"manual"}),
        (SearchFilter(added_to=date(2026, 3, 31)), {"manual", "note"}),
        (SearchFilter(added_from=date(2026, 3, 2)), {"note"}),
        (SearchFilter(added_from=date(2026, 4, 1), added_to=date(2026, 3, 1)), set()),
        (SearchFilter(added_from=date.min, added_to=date.max), {"manual", "note"}),
        (SearchFilter(document_ids=()), set()),
        (SearchFilter(tags=("legal\0", "'; DROP TABLE", "{}")), set()),
        (SearchFilter(kinds=("\0",)), set()),
    ],
)
def test_documents_satisfy_every_part(
    collection: Collection,
    manual: Document,
    note: Document,
    narrowed: SearchFilter,
    expected: set[str],
) -> None:
    names = {manual.id: "manual", note.id: "note"}
    found = resolved(collection, narrowed)
    assert found is not None
    assert {names[document] for document in found} == expected


def test_documents_by_id_are_those_of_the_tenant_and_its_collections_that_are_ready(
    tenant: Tenant, collection: Collection, manual: Document, note: Document
) -> None:
    rival = Tenant.objects.create(slug="rival", name="Rival")
    theirs = add(make_collection(rival), "The warranty of the rival.")
    elsewhere = add(make_collection(tenant, "Other"), "The warranty of others.")
    with tenant_scope(tenant.id):
        Document.objects.filter(tenant=tenant, id=note.id).update(state=DocumentState.SUPERSEDED)
    ids = (manual.id, note.id, theirs.id, elsewhere.id)
    assert resolved(collection, SearchFilter(document_ids=ids)) == {manual.id}


@pytest.mark.usefixtures("embedder", "reranker", "note")
@pytest.mark.parametrize(
    "options", [SearchOptions(words=False), SearchOptions(vectors=False), SearchOptions()]
)
def test_both_legs_search_the_documents_and_no_others(
    collection: Collection, manual: Document, options: SearchOptions
) -> None:
    found = retrieve(
        tenant_id=collection.tenant_id,
        question="How long does the warranty of the printer last?",
        collection_ids=[collection.id],
        trace=Trace(collection.tenant_id, "answer"),
        narrowed=SearchFilter(kinds=(PDF,)),
        options=options,
    )
    assert {passage.document_id for passage in found.passages} == {manual.id}


@pytest.mark.usefixtures("embedder", "reranker", "manual", "note")
def test_a_filter_that_nothing_satisfies_finds_nothing(collection: Collection) -> None:
    found = retrieve(
        tenant_id=collection.tenant_id,
        question="warranty",
        collection_ids=[collection.id],
        trace=Trace(collection.tenant_id, "answer"),
        narrowed=SearchFilter(tags=("unheard of",)),
    )
    assert found.passages == ()
