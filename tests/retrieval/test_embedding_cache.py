"""Vectors of questions that come again."""

from __future__ import annotations

import dataclasses
import uuid

import numpy as np
import pytest
from pytest_django import Settings

from apps.documents.models import Collection
from apps.inference import errors
from apps.retrieval import embedding_cache
from apps.retrieval.embedding_cache import Question, keep, look_up
from apps.retrieval.pipeline import retrieve
from apps.telemetry.hops import Hop, Trace
from apps.tenants.models import Tenant
from tests.retrieval.corpus import (
    CoverageReranker,
    WordEmbedder,
    make_collection,
    make_document,
    write_rows,
)

VECTOR = np.arange(4, dtype=np.float32)


@pytest.fixture
def question() -> Question:
    return Question(uuid.uuid4(), "words", 4, "", "When does the harbour open?")


class TestKeeping:
    def test_a_vector_comes_back_to_the_bit_with_what_it_had_taken(
        self, question: Question
    ) -> None:
        assert look_up(question).result == "miss"
        keep(question, VECTOR, 12.5)
        found = look_up(question)
        assert (found.result, found.embed_ms) == ("hit", 12.5)
        assert found.vector is not None
        assert found.vector.tobytes() == VECTOR.tobytes()
        assert found.vector.dtype == np.float32

    @pytest.mark.parametrize(
        "other",
        [
            {"text": "When does the harbour close?"},
            {"text": "\ud83d"},
            {"prompt": "query: "},
            {"model_id": "others"},
            {"dimensions": 5},
        ],
        ids=str,
    )
    def test_anything_else_is_another_question(
        self, question: Question, other: dict[str, object]
    ) -> None:
        keep(question, VECTOR, 1)
        assert look_up(dataclasses.replace(question, **other)).result == "miss"

    def test_another_tenants_is_never_found(
        self, question: Question, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keep(question, VECTOR, 1)
        rival = dataclasses.replace(question, tenant_id=uuid.uuid4())
        assert look_up(rival).result == "miss"
        # Even where both had the same place.
        monkeypatch.setattr(embedding_cache, "_slot", lambda asked: f"{embedding_cache.PREFIX}one")
        keep(question, VECTOR, 1)
        assert look_up(rival).result == "miss"

    def test_what_is_kept_holds_no_text(self, question: Question) -> None:
        keep(question, VECTOR, 1)
        client = embedding_cache._client(embedding_cache.settings.REDIS_URL)
        name = embedding_cache._slot(question)
        assert "harbour" not in name
        assert b"harbour" not in client.get(name)
        assert 0 < client.pttl(name) <= 86_400_000

    def test_a_tenant_has_so_many_places_however_much_it_asks(
        self, question: Question, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(embedding_cache, "SLOTS", 8)
        for number in range(100):
            keep(dataclasses.replace(question, text=f"Question {number}?"), VECTOR, 1)
        client = embedding_cache._client(embedding_cache.settings.REDIS_URL)
        pattern = f"{embedding_cache.PREFIX}{question.tenant_id}:*"
        assert len(list(client.scan_iter(pattern))) <= 8

    @pytest.mark.parametrize(
        "garbage", [b"", b"x", b"x" * 52, None], ids=["empty", "x", "x52", "nan"]
    )
    def test_what_is_no_vector_is_a_miss(self, question: Question, garbage: bytes | None) -> None:
        keep(question, np.full(4, np.nan, np.float32), 1)
        client = embedding_cache._client(embedding_cache.settings.REDIS_URL)
        if garbage is not None:
            client.set(embedding_cache._slot(question), garbage)
        assert look_up(question).result == "miss"

    def test_without_redis_it_is_an_error_and_nothing_is_raised(
        self, question: Question, settings: Settings
    ) -> None:
        settings.REDIS_URL = "redis://127.0.0.1:1/0"
        assert look_up(question).result == "error"
        keep(question, VECTOR, 1)

    def test_it_can_be_switched_off(self, question: Question, settings: Settings) -> None:
        keep(question, VECTOR, 1)
        settings.EMBEDDING_CACHE_TTL_S = 0
        found = look_up(question)
        assert (found.result, found.reason) == ("bypassed", "switched_off")


@pytest.mark.django_db
class TestHop:
    @pytest.fixture(autouse=True)
    def _document(
        self, collection: Collection, embedder: WordEmbedder, reranker: CoverageReranker
    ) -> None:
        write_rows(make_document(collection, ["The harbour opens at six."]))

    def ask(self, collection: Collection, **trace: object) -> Hop:
        asked = Trace(collection.tenant_id, "answer", **trace)  # type: ignore[arg-type]
        found = retrieve(
            tenant_id=collection.tenant_id,
            question="When does the harbour open?",
            collection_ids=[collection.id],
            trace=asked,
        )
        assert found.passages[0].stages.vector is not None
        return asked.hops[0]

    def test_a_question_that_comes_again_is_not_embedded(
        self, collection: Collection, embedder: WordEmbedder
    ) -> None:
        first, second = self.ask(collection), self.ask(collection)
        assert (first.status, first.attributes["cache"]) == ("ok", "miss")
        assert (second.status, second.attributes["cache"]) == ("cached", "hit")
        assert len(embedder.batches) == 1
        assert [(use.kind, use.cache) for hop in (first, second) for use in hop.uses] == [
            ("embed", "miss"),
            ("embed", "hit"),
        ]
        assert first.uses[0].tokens == second.uses[0].tokens > 0

    def test_it_is_found_by_meaning_although_the_model_is_down(
        self, collection: Collection, embedder: WordEmbedder
    ) -> None:
        self.ask(collection)
        embedder.failures.append(errors.Unavailable("down"))
        assert self.ask(collection).status == "cached"

    def test_an_evaluation_measures_the_model_and_not_the_cache(
        self, collection: Collection, embedder: WordEmbedder
    ) -> None:
        self.ask(collection)
        hop = self.ask(collection, source="evaluation")
        assert hop.status == "ok"
        assert (hop.uses[0].cache, hop.uses[0].cache_reason) == ("bypassed", "evaluation")
        assert len(embedder.batches) == 2

    def test_without_redis_it_is_embedded_as_ever(
        self, collection: Collection, embedder: WordEmbedder, settings: Settings
    ) -> None:
        settings.REDIS_URL = "redis://127.0.0.1:1/0"
        for _ in range(2):
            hop = self.ask(collection)
            assert (hop.status, hop.attributes["cache"], hop.uses[0].cache) == (
                *("ok", "error", "error"),
            )
        assert len(embedder.batches) == 2

    def test_another_tenant_embeds_its_own(self, embedder: WordEmbedder) -> None:
        rival = make_collection(Tenant.objects.create(slug="rival", name="Rival"))
        write_rows(make_document(rival, ["The harbour opens at six."]))
        assert self.ask(rival).attributes["cache"] == "miss"

    def test_a_model_that_fails_is_booked_with_what_it_failed_with(
        self, collection: Collection, embedder: WordEmbedder
    ) -> None:
        embedder.failures.append(errors.TimedOut("silent"))
        trace = Trace(collection.tenant_id, "answer")
        retrieve(
            tenant_id=collection.tenant_id,
            question="When?",
            collection_ids=[collection.id],
            trace=trace,
        )
        (use,) = trace.hops[0].uses
        assert (use.tokens, use.error_code, use.cache) == (0, "timed_out", "miss")
