"""Embedding and reranking are booked with the trace that they are part of."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction

from apps.gateway.calling import catalogue
from apps.gateway.ledger.verifying import verify
from apps.gateway.models import BudgetCounter, LedgerEntry, Price
from apps.inference import registry
from apps.inference.errors import Unavailable
from apps.retrieval.indexing import index_next
from apps.retrieval.pipeline import retrieve
from apps.telemetry.hops import ModelUse, Trace
from apps.telemetry.models import Span
from apps.telemetry.services import account_for, record_trace
from tests.cast import Cast
from tests.retrieval.corpus import (
    CoverageReranker,
    WordEmbedder,
    make_collection,
    make_document,
    write_rows,
)

pytestmark = pytest.mark.django_db
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _prices() -> None:
    """A micro a token embedded, two reranked."""
    for upstream, micros in (("embedding", 10**6), ("reranking", 2 * 10**6)):
        Price.objects.create(upstream=upstream, valid_from=LONG_AGO, input_micros_per_mtok=micros)
    catalogue.forget()


def answered(tenant_id: uuid.UUID, *uses: ModelUse, **more: Any) -> Trace:
    trace = Trace(tenant_id, "answer", **more)
    for use in uses:
        with trace.hop(use.kind) as hop:
            hop.used(use)
    return trace


def test_each_use_of_a_model_is_a_row_of_its_caller(cast: Cast) -> None:
    key, conversation, request = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    collection = uuid.uuid4()
    trace = answered(
        cast.acme.id,
        ModelUse("embed", "minilm", 12, 3.5),
        ModelUse("rerank", "late-interaction", 900, 20.0, estimated=False),
        user_id=cast.bob.id,
        key_id=key,
        conversation_id=conversation,
        collection_ids=(collection,),
        request_id=request,
        source="api",
    )
    record_trace(trace)
    embed, rerank = LedgerEntry.objects.order_by("id")
    assert (embed.hop, embed.model, embed.upstream) == ("embed", "embedding", "embedding")
    assert (embed.upstream_model, embed.prompt_tokens, embed.total_ms) == ("minilm", 12, 3.5)
    assert (embed.tokens_estimated, embed.cost_micros) == (True, 12)
    assert (rerank.hop, rerank.model, rerank.upstream) == ("rerank", "reranker", "reranking")
    assert (rerank.tokens_estimated, rerank.cost_micros) == (False, 1800)
    for row in (embed, rerank):
        assert (row.tenant_id, row.user_id, row.key_id) == (cast.acme.id, cast.bob.id, key)
        assert (row.conversation_id, row.request_id) == (conversation, request)
        assert (row.collection_ids, row.source) == ([collection], "api")
        assert (row.outcome, row.price_id is not None) == ("complete", True)


def test_their_money_is_counted_and_agrees_with_the_ledger(cast: Cast) -> None:
    key = uuid.uuid4()
    for _ in range(3):
        record_trace(
            answered(
                cast.acme.id,
                ModelUse("embed", "minilm", 12, 1.0),
                ModelUse("rerank", "late-interaction", 900, 1.0),
                user_id=cast.bob.id,
                key_id=key,
            )
        )
    counters = BudgetCounter.objects.filter(tenant_id=cast.acme.id, measure="micros")
    assert {(each.subject, each.subject_id, each.used) for each in counters} == {
        ("tenant", "", 3 * 1812),
        ("member", str(cast.bob.id), 3 * 1812),
        ("key", str(key), 3 * 1812),
    }
    assert not BudgetCounter.objects.filter(measure="tokens", used__gt=0).exists()
    assert verify() == []


def test_a_counter_that_was_moved_by_one_micro_is_found(cast: Cast) -> None:
    record_trace(answered(cast.acme.id, ModelUse("embed", "minilm", 12, 1.0)))
    BudgetCounter.objects.filter(measure="micros").update(used=13)
    (difference,) = verify()
    assert (difference.table, difference.stored, difference.ledger) == ("counters", 13, 12)


@pytest.mark.parametrize(
    ("kind", "source", "booked_as"),
    [
        ("answer", "", "chat"),
        ("ingestion", "", "ingestion"),
        ("answer", "command", "command"),
        ("answer", "evaluation", "evaluation"),
    ],
)
def test_what_it_was_for_is_told_by_the_trace(
    cast: Cast, kind: Any, source: Any, booked_as: str
) -> None:
    trace = Trace(cast.acme.id, kind, source=source)
    with trace.hop("index") as hop:
        hop.used(ModelUse("embed", "minilm", 5, 1.0))
    record_trace(trace)
    row = LedgerEntry.objects.get()
    assert (row.source, row.request_id) == (booked_as, trace.trace_id)


def test_a_cached_embedding_costs_nothing_and_says_what_it_saved(cast: Cast) -> None:
    use = ModelUse("embed", "minilm", 12, 0.1, cache="hit", saved_ms=9.0)
    record_trace(answered(cast.acme.id, use))
    row = LedgerEntry.objects.get()
    assert (row.cache, row.cost_micros, row.prompt_tokens, row.upstream) == ("hit", 0, 0, "")
    assert (row.saved_micros, row.saved_ms) == (12, 9.0)
    assert not BudgetCounter.objects.filter(used__gt=0).exists()


@pytest.mark.parametrize(
    ("code", "outcome"), [("timed_out", "timed_out"), ("unavailable", "failed")]
)
def test_a_model_that_did_not_answer_is_booked_as_failed(
    cast: Cast, code: str, outcome: str
) -> None:
    record_trace(answered(cast.acme.id, ModelUse("embed", "minilm", 0, 5.0, error_code=code)))
    row = LedgerEntry.objects.get()
    assert (row.outcome, row.error_code, row.cost_micros) == (outcome, code, 0)


def test_a_trace_that_is_not_stored_leaves_no_row(cast: Cast) -> None:
    with transaction.atomic():
        record_trace(answered(cast.acme.id, ModelUse("embed", "minilm", 12, 1.0)))
        transaction.set_rollback(True)
    assert not LedgerEntry.objects.exists()
    assert not Span.objects.exists()


def test_a_trace_can_be_accounted_for_without_being_stored(cast: Cast) -> None:
    account_for(answered(cast.acme.id, ModelUse("embed", "minilm", 12, 1.0), source="evaluation"))
    assert LedgerEntry.objects.get().source == "evaluation"
    assert not Span.objects.exists()


def test_hops_without_models_are_booked_nowhere(cast: Cast) -> None:
    record_trace(answered(cast.acme.id))
    assert not LedgerEntry.objects.exists()


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> WordEmbedder:
    stand_in = WordEmbedder()
    monkeypatch.setattr(registry, "get_embedder", lambda: stand_in)
    return stand_in


@pytest.fixture
def reranker(monkeypatch: pytest.MonkeyPatch) -> CoverageReranker:
    stand_in = CoverageReranker()
    monkeypatch.setattr(registry, "get_reranker", lambda: stand_in)
    return stand_in


def test_indexing_books_what_was_embedded(cast: Cast, embedder: WordEmbedder) -> None:
    collection = make_collection(cast.acme)
    make_document(collection, ["battery life", "warranty"])
    assert index_next()
    row = LedgerEntry.objects.get()
    assert (row.hop, row.source, row.collection_ids) == ("embed", "ingestion", [collection.id])
    assert (row.upstream_model, row.prompt_tokens, row.cost_micros) == ("words", 3, 3)


def asked(cast: Cast, question: str) -> list[LedgerEntry]:
    collection = make_collection(cast.acme)
    write_rows(make_document(collection, ["battery life", "warranty of the battery"]))
    trace = Trace(cast.acme.id, "answer", user_id=cast.bob.id, collection_ids=(collection.id,))
    retrieve(
        tenant_id=cast.acme.id,
        question=question,
        collection_ids=[collection.id],
        trace=trace,
        limit=8,
    )
    record_trace(trace)
    return list(LedgerEntry.objects.order_by("id"))


@pytest.mark.usefixtures("embedder", "reranker")
def test_a_question_books_its_embedding_and_its_reranking(cast: Cast) -> None:
    embed, rerank = asked(cast, "battery?")
    assert (embed.hop, embed.source, embed.user_id) == ("embed", "chat", cast.bob.id)
    assert embed.prompt_tokens > 0
    assert (rerank.hop, rerank.upstream) == ("rerank", "reranking")
    assert rerank.prompt_tokens > embed.prompt_tokens
    assert verify() == []


@pytest.mark.usefixtures("embedder")
def test_a_reranker_that_is_down_is_booked_as_failed(
    cast: Cast, reranker: CoverageReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*args: object) -> list[float]:
        raise Unavailable("gone")

    monkeypatch.setattr(reranker, "score", down)
    _, rerank = asked(cast, "battery?")
    assert (rerank.outcome, rerank.error_code, rerank.prompt_tokens) == ("failed", "unavailable", 0)


@pytest.mark.usefixtures("embedder", "reranker")
def test_a_question_that_embeds_nothing_books_nothing(cast: Cast) -> None:
    assert [row.hop for row in asked(cast, "  ")] == []
