"""From a question to passages, whole and with parts down."""

from __future__ import annotations

import uuid

import pytest
from django.conf import settings
from pytest_django import Settings

from apps.documents.models import Collection, Document, DocumentState
from apps.inference import errors, registry
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.pipeline import retrieve
from apps.retrieval.types import Retrieval
from apps.telemetry.hops import Trace
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import (
    CoverageReranker,
    WordEmbedder,
    delete_document,
    make_collection,
    make_document,
    write_rows,
)

pytestmark = pytest.mark.django_db

TEXTS = [
    "The battery warranty lasts two years from the day of purchase.",
    "Refunds are paid within ten days after the goods came back.",
    "Printers are cleaned with a dry cloth, never with water.",
    "Network cables longer than a hundred metres need a repeater.",
    "The office is closed on public holidays.",
]


@pytest.fixture
def document(collection: Collection) -> Document:
    made = make_document(collection, TEXTS, heading="Handbook › Care")
    write_rows(made)
    return made


def ask(
    collection: Collection, question: str, *, limit: int = 8, tenant_id: uuid.UUID | None = None
) -> tuple[Retrieval, dict[str, str]]:
    """The outcome, and the status of each hop."""
    tenant = tenant_id or collection.tenant_id
    trace = Trace(tenant, "answer")
    found = retrieve(
        tenant_id=tenant,
        question=question,
        collection_ids=[collection.id],
        trace=trace,
        limit=limit,
    )
    return found, {hop.name: hop.status for hop in trace.hops}


@pytest.mark.usefixtures("embedder", "reranker")
def test_the_passage_that_answers_comes_first(collection: Collection, document: Document) -> None:
    found, hops = ask(collection, "How long does the battery warranty last?")
    best = found.passages[0]
    assert best.text == TEXTS[0]
    assert (best.document_id, best.document_name) == (document.id, "guide.md")
    assert (best.heading_path, best.page_first, best.char_start) == ("Handbook › Care", 1, 0)
    assert hops == {"embed": "ok", "search": "ok", "rerank": "ok"}
    assert found.notices == ()


@pytest.mark.usefixtures("embedder", "reranker", "document")
def test_passages_come_best_first_and_no_more_than_asked_for(collection: Collection) -> None:
    found, _ = ask(collection, "battery warranty refund printers", limit=2)
    scores = [passage.score for passage in found.passages]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)


@pytest.mark.usefixtures("embedder", "document")
def test_the_reranker_is_told_how_rare_each_word_is(
    collection: Collection, reranker: CoverageReranker
) -> None:
    question = "the warranty"
    ask(collection, question)
    weights = {question[word.start : word.end]: word.weight for word in reranker.words}
    assert weights["warranty"] > weights["the"] > 0


@pytest.mark.usefixtures("reranker", "document")
def test_without_the_embedder_words_are_searched_and_the_reader_is_told(
    collection: Collection, embedder: WordEmbedder
) -> None:
    embedder.failures = [errors.Unavailable("down")]
    found, hops = ask(collection, "battery warranty")
    assert [passage.text for passage in found.passages] == [TEXTS[0]]
    assert [notice.code for notice in found.notices] == ["embedder_down"]
    assert hops["embed"] == hops["search"] == "degraded"
    assert found.passages[0].relevance > settings.NOT_FOUND_BELOW


@pytest.mark.usefixtures("document", "reranker")
def test_an_embedder_without_an_address_is_a_broken_embedder(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unset() -> None:
        raise errors.NotConfigured("TEI_URL is empty.")

    monkeypatch.setattr(registry, "get_embedder", unset)
    found, _ = ask(collection, "battery warranty")
    assert [notice.code for notice in found.notices] == ["embedder_down"]


@pytest.mark.usefixtures("embedder", "document")
def test_without_the_reranker_the_fused_order_stands_and_the_reader_is_told(
    collection: Collection, reranker: CoverageReranker
) -> None:
    reranker.failures = [errors.TimedOut("slow")]
    found, hops = ask(collection, "How long does the battery warranty last?")
    assert found.passages[0].text == TEXTS[0]
    assert [notice.code for notice in found.notices] == ["reranker_down"]
    assert hops["rerank"] == "degraded"


@pytest.mark.usefixtures("embedder", "document")
def test_a_reranker_that_is_off_is_no_news(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "get_reranker", lambda: None)
    found, hops = ask(collection, "battery warranty")
    assert found.passages[0].text == TEXTS[0]
    assert found.notices == ()
    assert hops["rerank"] == "skipped"


@pytest.mark.usefixtures("embedder", "reranker", "document")
def test_words_nobody_wrote_are_searched_by_meaning(collection: Collection) -> None:
    found, hops = ask(collection, "zyzzyva")
    assert len(found.passages) == len(TEXTS)
    assert hops["search"] == "ok"
    assert max(passage.relevance for passage in found.passages) < settings.NOT_FOUND_BELOW


@pytest.mark.usefixtures("reranker", "document")
def test_with_no_word_in_common_and_no_embedder_nothing_is_found(
    collection: Collection, embedder: WordEmbedder
) -> None:
    embedder.failures = [errors.Unavailable("down")]
    found, hops = ask(collection, "zyzzyva")
    assert found.passages == ()
    assert hops["rerank"] == "skipped"


@pytest.mark.usefixtures("embedder", "reranker")
def test_an_empty_collection_finds_nothing(collection: Collection) -> None:
    found, hops = ask(collection, "battery")
    assert found == Retrieval(())
    assert hops == {"embed": "skipped", "search": "ok", "rerank": "skipped"}


@pytest.mark.usefixtures("reranker", "document")
def test_a_language_the_model_does_not_know_is_searched_by_words(
    collection: Collection, embedder: WordEmbedder
) -> None:
    write_rows(make_document(collection, ["黑豹队的防守只丢了分", "今天天气很好"], language="zh"))
    embedder.batches.clear()
    found, hops = ask(collection, "黑豹队的防守怎么样？")
    assert [passage.text for passage in found.passages] == ["黑豹队的防守只丢了分"]
    assert hops == {"embed": "skipped", "search": "ok", "rerank": "skipped"}
    assert embedder.batches == []
    assert found.notices == ()


@pytest.mark.usefixtures("embedder", "reranker", "document")
def test_chunks_in_a_language_the_model_does_not_know_need_a_word_in_common(
    collection: Collection,
) -> None:
    write_rows(make_document(collection, ["今天天气很好", "battery 黑豹队"], language="zh"))
    found, _ = ask(collection, "battery life", limit=20)
    texts = [passage.text for passage in found.passages]
    assert "battery 黑豹队" in texts
    assert "今天天气很好" not in texts


@pytest.mark.usefixtures("embedder", "reranker", "document")
@pytest.mark.parametrize(
    ("language", "text", "question"),
    [
        ("de", "Die Rechnung wird im Mai bezahlt.", "Rechnungen"),
        ("pl", "Umowy podpisuje zarząd spółki.", "umowa zarządu"),
        ("fi", "Talossa on kolme huonetta.", "huoneet"),
    ],
)
def test_words_are_stemmed_as_the_documents_language_wants(
    collection: Collection, language: str, text: str, question: str
) -> None:
    write_rows(make_document(collection, [text], language=language))
    assert ask(collection, question)[0].passages[0].text == text


@pytest.mark.usefixtures("embedder", "reranker", "document")
def test_a_model_of_all_languages_is_used_for_all(
    collection: Collection, settings: Settings
) -> None:
    settings.EMBEDDING_LANGUAGES = ["*"]
    _, hops = ask(collection, "黑豹队的防守怎么样？")
    assert hops["embed"] == "ok"


@pytest.mark.usefixtures("reranker", "document")
def test_an_index_of_another_model_is_not_searched_and_the_reader_is_told(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    EmbeddingIndex.objects.filter(tenant=tenant).update(model_id="retired")
    found, hops = ask(collection, "battery warranty")
    assert [passage.text for passage in found.passages] == [TEXTS[0]]
    assert [notice.code for notice in found.notices] == ["index_behind"]
    assert hops["embed"] == "degraded"


@pytest.mark.usefixtures("embedder", "reranker")
@pytest.mark.parametrize("state", [DocumentState.INDEXING, DocumentState.FAILED])
def test_a_document_that_is_not_ready_is_not_found(
    tenant: Tenant, collection: Collection, document: Document, state: str
) -> None:
    with tenant_scope(tenant.id):
        Document.objects.filter(id=document.id).update(state=state)
    assert ask(collection, "battery warranty")[0].passages == ()


@pytest.mark.usefixtures("embedder", "reranker")
def test_a_deleted_document_is_not_found(collection: Collection, document: Document) -> None:
    delete_document(document)
    assert ask(collection, "battery warranty")[0].passages == ()


@pytest.mark.usefixtures("embedder", "reranker", "document")
def test_only_the_collections_given_are_searched(tenant: Tenant) -> None:
    other = make_collection(tenant, "Other")
    assert ask(other, "battery warranty")[0].passages == ()


@pytest.mark.usefixtures("embedder", "reranker")
def test_the_same_text_in_two_tenants_is_found_in_ones_own(
    collection: Collection, document: Document
) -> None:
    rival = Tenant.objects.create(slug="rival", name="Rival")
    theirs = make_collection(rival)
    twin = make_document(theirs, TEXTS)
    write_rows(twin)
    for asked, expected in ((collection, document), (theirs, twin)):
        found, _ = ask(asked, "battery warranty")
        assert {passage.document_id for passage in found.passages} == {expected.id}


@pytest.mark.usefixtures("embedder", "reranker", "document")
def test_guessed_ids_of_another_tenants_collection_find_nothing(collection: Collection) -> None:
    rival = Tenant.objects.create(slug="rival", name="Rival")
    write_rows(make_document(make_collection(rival), TEXTS))
    found, _ = ask(collection, "battery warranty", tenant_id=rival.id)
    assert found.passages == ()


@pytest.mark.usefixtures("embedder", "reranker", "document")
@pytest.mark.parametrize(
    "question",
    [
        "",
        "   ",
        "a & b | !c <-> 'd':*",
        "'; DROP TABLE retrieval_chunkterms; --",
        '"quoted" \\ back\\slash %s %(x)s {}',
        "nul \x00 in the middle",
        "battery " * 20_000,
        "🎉🎉🎉",
        "\u202e\u200b\ufeff",
        "?" * 5000,
        " ".join(f"w{n}" for n in range(30_000)),
    ],
)
def test_hostile_questions_do_no_harm(collection: Collection, question: str) -> None:
    found, hops = ask(collection, question)
    assert set(hops) == {"embed", "search", "rerank"}
    assert found.notices == ()
    assert all(0 <= passage.relevance <= 1 for passage in found.passages)


@pytest.mark.usefixtures("embedder", "reranker", "document")
def test_the_trace_holds_figures_and_no_text(collection: Collection) -> None:
    trace = Trace(collection.tenant_id, "answer")
    retrieve(
        tenant_id=collection.tenant_id,
        question="battery warranty",
        collection_ids=[collection.id],
        trace=trace,
    )
    search = trace.hops[1].attributes
    assert search["vector_candidates"] == search["fused_candidates"] == len(TEXTS)
    assert (search["bm25_candidates"], search["plan"]) == (1, "exact")
    assert "battery" not in str([hop.attributes for hop in trace.hops])
