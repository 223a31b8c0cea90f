"""Trying a question against one document."""

from __future__ import annotations

import uuid

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from apps.documents.models import Collection, Document
from apps.inference import errors
from apps.retrieval import bm25, vectors
from apps.retrieval.analysis import terms_of
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.options import SearchFilter
from apps.retrieval.pipeline import retrieve
from apps.retrieval.types import Retrieval
from apps.telemetry.hops import Trace
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in
from tests.retrieval.corpus import (
    CoverageReranker,
    WordEmbedder,
    make_collection,
    make_document,
    write_rows,
)

pytestmark = pytest.mark.django_db

TEXTS = ["The battery warranty lasts two years.", "Refunds are paid within ten days."]
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture
def collection(cast: Cast) -> Collection:
    return make_collection(cast.acme)


@pytest.fixture
def document(collection: Collection) -> Document:
    made = make_document(collection, TEXTS, heading=f"Care {HOSTILE}")
    write_rows(made)
    return made


@pytest.fixture
def twin(collection: Collection, document: Document) -> Document:
    """The same texts in another document of the collection."""
    made = make_document(collection, TEXTS)
    write_rows(made)
    return made


def post(client: Client, document: Document, question: str) -> HttpResponse:
    ids = ["acme", document.collection_id, document.id]
    return client.post(reverse("retrieval:try_question", args=ids), {"question": question})


def ask(client: Client, document: Document, question: str) -> str:
    response = post(client, document, question)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.usefixtures("embedder", "reranker")
def test_the_passages_come_with_their_scores_and_their_place(
    cast: Cast, document: Document
) -> None:
    page = ask(signed_in(cast.bob), document, "How long does the battery warranty last?")
    assert page.index("battery warranty lasts") < page.index("Refunds are paid")
    for stage in ("Words (BM25)", "Meaning (cosine)", "Fused", "Reranker", "Relevance"):
        assert stage in page
    place = reverse("documents:document", args=["acme", document.collection_id, document.id])
    assert f"{place}?passage=" in page
    assert "Page 1" in page
    assert "<script>" not in page


@pytest.mark.usefixtures("embedder", "reranker", "twin")
def test_only_that_document_is_searched(cast: Cast, document: Document) -> None:
    page = ask(signed_in(cast.bob), document, "battery warranty")
    assert page.count("The battery warranty lasts two years.") == 1


@pytest.mark.usefixtures("reranker")
def test_a_broken_embedder_is_told(cast: Cast, document: Document, embedder: WordEmbedder) -> None:
    embedder.failures = [errors.Unavailable("down")]
    page = ask(signed_in(cast.bob), document, "battery warranty")
    assert "found by their words" in page
    assert "battery warranty lasts" in page


@pytest.mark.usefixtures("reranker")
def test_nothing_found_says_what_to_do(
    cast: Cast, document: Document, embedder: WordEmbedder
) -> None:
    embedder.failures = [errors.Unavailable("down")]
    assert "Nothing of this document" in ask(signed_in(cast.bob), document, "zyzzyva")


@pytest.mark.usefixtures("embedder", "reranker")
def test_a_passage_that_would_not_be_answered_from_is_called_so(
    cast: Cast, document: Document
) -> None:
    page = ask(signed_in(cast.bob), document, "zyzzyva")
    assert "the documents do not say" in page


@pytest.mark.usefixtures("embedder", "reranker")
@pytest.mark.parametrize("question", ["", "   ", "\x00", "battery " * 10_000, HOSTILE, "' & | !"])
def test_hostile_questions_do_no_harm(cast: Cast, document: Document, question: str) -> None:
    assert "<script>" not in ask(signed_in(cast.bob), document, question)


@pytest.mark.usefixtures("embedder", "reranker")
def test_times_are_for_those_who_may_see_them(cast: Cast, document: Document) -> None:
    assert "embed" in ask(signed_in(cast.carl), document, "battery")
    assert "found-hops" not in ask(signed_in(cast.bob), document, "battery")


@pytest.mark.parametrize("state", ["indexing", "failed", "superseded"])
def test_a_document_that_is_not_ready_is_not_searched(
    cast: Cast, document: Document, state: str
) -> None:
    with tenant_scope(cast.acme.id):
        Document.objects.filter(id=document.id).update(state=state)
    assert "not ready yet" in ask(signed_in(cast.bob), document, "battery")


def test_a_question_is_in_no_address(cast: Cast, document: Document) -> None:
    ids = ["acme", document.collection_id, document.id]
    response = signed_in(cast.bob).get(reverse("retrieval:try_question", args=ids) + "?question=x")
    assert response.status_code == 405


def test_a_collection_for_others_is_not_found(cast: Cast, document: Document) -> None:
    with tenant_scope(cast.acme.id):
        Collection.objects.filter(id=document.collection_id).update(open_to_all=False)
    assert post(signed_in(cast.bob), document, "battery").status_code == 404


def test_it_is_not_found_under_another_collection(cast: Cast, document: Document) -> None:
    other = make_collection(cast.acme, "Other")
    document.collection_id = other.id
    assert post(signed_in(cast.bob), document, "battery").status_code == 404


def narrowed(document: Document, *document_ids: uuid.UUID) -> Retrieval:
    return retrieve(
        tenant_id=document.tenant_id,
        question="battery warranty",
        collection_ids=[document.collection_id],
        narrowed=SearchFilter(document_ids=document_ids),
        trace=Trace(document.tenant_id, "answer"),
    )


@pytest.mark.usefixtures("embedder", "reranker")
def test_search_is_narrowed_to_documents(document: Document, twin: Document) -> None:
    assert {each.document_id for each in narrowed(document, twin.id).passages} == {twin.id}
    both = narrowed(document, twin.id, document.id).passages
    assert {each.document_id for each in both} == {twin.id, document.id}
    assert narrowed(document).passages == ()
    assert narrowed(document, uuid.uuid4()).passages == ()


@pytest.mark.usefixtures("embedder", "reranker")
def test_another_tenants_document_is_not_found_by_its_id(cast: Cast, document: Document) -> None:
    theirs = make_document(make_collection(cast.rival), TEXTS)
    write_rows(theirs)
    assert narrowed(document, theirs.id).passages == ()


def test_both_legs_are_narrowed(cast: Cast, document: Document, twin: Document) -> None:
    """Each by itself: together they would hide one that is not."""
    where = {"collection_ids": [document.collection_id], "limit": 10, "document_ids": [twin.id]}
    terms = terms_of("battery warranty")
    with tenant_scope(cast.acme.id):
        ours = set(twin.chunks.values_list("id", flat=True))
    statistics = bm25.read_statistics(
        tenant_id=cast.acme.id, collection_ids=[document.collection_id], terms=terms
    )
    words = bm25.search(tenant_id=cast.acme.id, terms=terms, statistics=statistics, **where)  # type: ignore[arg-type]
    index = EmbeddingIndex.objects.get(tenant=cast.acme)
    question = WordEmbedder().embed_query("battery warranty")
    meanings = vectors.search(index=index, question=question, **where)  # type: ignore[arg-type]
    assert set(words) < ours
    assert set(meanings) == ours


def test_the_stages_scores_are_those_of_the_search(
    document: Document, embedder: WordEmbedder, reranker: CoverageReranker
) -> None:
    first, second = narrowed(document, document.id).passages
    assert first.stages is not None
    assert second.stages is not None
    assert first.stages.bm25 is not None
    assert second.stages.bm25 is None
    assert first.stages.vector is not None
    assert first.stages.reranker == 1.0
    reranker.failures = [errors.TimedOut("slow")]
    (first, _) = narrowed(document, document.id).passages
    assert first.stages is not None
    assert first.stages.reranker is None
