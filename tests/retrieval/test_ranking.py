"""The second look, through the whole pipeline: its depth, its span, and what is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from pytest_django import Settings

from apps.documents.models import Collection
from apps.inference import registry
from apps.inference.types import WeightedWord
from apps.retrieval.options import SearchOptions
from apps.retrieval.pipeline import retrieve
from apps.retrieval.types import Retrieval
from apps.telemetry.hops import Hop, Trace
from tests.retrieval.corpus import CoverageReranker, make_document, write_rows

pytestmark = pytest.mark.django_db
OPTIONS = SearchOptions(explain=True)


class LengthReranker:
    """A cross-encoder that likes long passages; remembers what it was given."""

    name = "cross-encoder"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def score(
        self, question: str, passages: Sequence[str], words: Sequence[WeightedWord] = ()
    ) -> list[float]:
        self.seen = list(passages)
        return [100.0 * len(passage) for passage in passages]


@pytest.fixture
def long_first(monkeypatch: pytest.MonkeyPatch) -> LengthReranker:
    stand_in = LengthReranker()
    monkeypatch.setattr(registry, "get_reranker", lambda *_: stand_in)
    return stand_in


def ask(
    collection: Collection, question: str, *, limit: int = 8, options: SearchOptions = OPTIONS
) -> tuple[Retrieval, Hop]:
    """The outcome, and the rerank hop."""
    trace = Trace(collection.tenant_id, "answer")
    found = retrieve(
        tenant_id=collection.tenant_id,
        question=question,
        collection_ids=[collection.id],
        trace=trace,
        limit=limit,
        options=options,
    )
    return found, trace.hops[-1]


def add(collection: Collection, *texts: str, language: str = "en") -> None:
    write_rows(make_document(collection, texts, language=language))


def passages(count: int) -> list[str]:
    return [f"The battery of model{n} {'lasts ' * n}" for n in range(1, count + 1)]


@pytest.mark.usefixtures("embedder")
def test_no_more_are_reranked_than_the_options_say_and_the_others_follow(
    collection: Collection, long_first: LengthReranker
) -> None:
    add(collection, *passages(9))
    found, hop = ask(collection, "battery", options=replace(OPTIONS, rerank_candidates=3))
    assert len(long_first.seen) == hop.attributes["candidates"] == 3
    fused = [chunk for chunk, _ in found.orders["fused"]]
    reranked = [chunk for chunk, _ in found.orders["reranked"]]
    assert set(reranked[:3]) == set(fused[:3])
    assert reranked[3:] == fused[3:]
    scores = [score for _, score in found.orders["reranked"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.usefixtures("embedder")
def test_any_reranker_is_fused_with_what_found_the_passages(
    collection: Collection, long_first: LengthReranker
) -> None:
    """Its scale, here hundreds, gives it no greater say."""
    add(collection, "battery warranty", "a text about nothing at all " * 3, "something else here")
    found, hop = ask(collection, "battery warranty")
    assert found.passages[0].text == "battery warranty"
    assert hop.attributes["reranker"] == "cross-encoder"


@pytest.mark.usefixtures("embedder", "long_first")
def test_the_span_says_how_many_the_reranker_brought_up(collection: Collection) -> None:
    add(collection, *passages(9))
    found, hop = ask(collection, "battery model1", limit=2)
    fused, final = ([chunk for chunk, _ in found.orders[s][:2]] for s in ("fused", "reranked"))
    assert hop.attributes["moved_in"] == len(set(final) - set(fused))


@pytest.mark.usefixtures("embedder", "reranker")
@pytest.mark.parametrize(
    ("options", "stages"),
    [
        (replace(OPTIONS, words=False), {"vectors", "fused", "reranked", "final"}),
        (replace(OPTIONS, vectors=False), {"bm25", "fused", "reranked", "final"}),
        (replace(OPTIONS, rerank=False), {"bm25", "vectors", "fused", "reranked", "final"}),
    ],
)
def test_each_stage_can_be_switched_off(
    collection: Collection, options: SearchOptions, stages: set[str]
) -> None:
    add(collection, "The battery warranty lasts two years.", "Refunds are paid in ten days.")
    found, hop = ask(collection, "battery warranty", options=options)
    assert found.passages[0].text.startswith("The battery")
    assert {stage for stage, order in found.orders.items() if order} == stages
    assert hop.status == ("ok" if options.rerank else "skipped")


@pytest.mark.usefixtures("embedder", "reranker")
def test_copies_are_given_once_and_the_span_counts_them(collection: Collection) -> None:
    text = "The battery warranty lasts two years from the day of purchase."
    add(collection, text, "Refunds are paid within ten days after the goods came back.")
    add(collection, text)
    found, hop = ask(collection, "battery warranty")
    assert [passage.text for passage in found.passages].count(text) == 1
    assert hop.attributes["near_duplicates"] == 1
    assert len(found.orders["final"]) == len(found.orders["reranked"]) - 1


@pytest.mark.usefixtures("embedder", "reranker")
def test_copies_are_all_given_where_nobody_asked_to_select(collection: Collection) -> None:
    text = "The battery warranty lasts two years from the day of purchase."
    add(collection, text)
    add(collection, text)
    found, hop = ask(collection, "battery warranty", options=replace(OPTIONS, diversify=False))
    assert len(found.passages) == 2
    assert found.orders["final"] == found.orders["reranked"]
    assert "near_duplicates" not in hop.attributes


@pytest.mark.usefixtures("embedder", "reranker")
def test_final_begins_with_what_was_given(collection: Collection) -> None:
    add(collection, *passages(12))
    add(collection, "battery of another document")
    found, _ = ask(collection, "battery", limit=5)
    given = [(passage.chunk_id, passage.score) for passage in found.passages]
    assert list(found.orders["final"][:5]) == given


@pytest.mark.usefixtures("embedder")
def test_late_interaction_does_not_judge_passages_in_a_language_it_does_not_know(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Watched(CoverageReranker):
        def score(
            self, question: str, passages: Sequence[str], words: Sequence[WeightedWord] = ()
        ) -> list[float]:
            seen.extend(passages)
            return super().score(question, passages, words)

    monkeypatch.setattr(registry, "get_reranker", lambda *_: Watched())
    add(collection, "battery life of phones", "printers are clean")
    add(collection, "battery 黑豹队", language="zh")
    found, hop = ask(collection, "battery life")
    assert "battery 黑豹队" not in seen
    assert "battery 黑豹队" in [passage.text for passage in found.passages]
    assert hop.attributes["unreadable"] == 1


@pytest.mark.usefixtures("embedder")
def test_a_reranking_model_has_no_say_in_languages_it_was_not_declared_for(
    collection: Collection, long_first: LengthReranker, settings: Settings
) -> None:
    add(collection, "黑豹队的防守只丢了分", "今天天气很好", language="zh")
    _, hop = ask(collection, "黑豹队的防守怎么样？")
    assert hop.status == "ok"
    settings.RERANKER_LANGUAGES = ["en"]
    _, hop = ask(collection, "黑豹队的防守怎么样？")
    assert (hop.status, hop.attributes["reason"]) == ("skipped", "language unknown to the reranker")


@pytest.mark.usefixtures("embedder", "reranker")
def test_copies_leave_room_for_others_however_many_are_asked_for(collection: Collection) -> None:
    add(collection, *(f"battery note {word} here" for word in "abcdefghijklmnopqrstuvwxyz"))
    for _ in range(3):
        add(collection, "battery note a here")
    found, _ = ask(collection, "battery note", limit=20, options=SearchOptions(explain=True))
    assert len(found.passages) == 20
    assert len({passage.text for passage in found.passages}) == 20
