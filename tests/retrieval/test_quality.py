"""Retrieval finds what people labelled as right, through the real code."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence

import pytest
from django.conf import settings as site_settings
from pytest_django import Settings

from apps.documents.models import Collection
from apps.inference import registry
from apps.retrieval.indexing import index_next
from apps.retrieval.pipeline import retrieve
from apps.retrieval.types import Passage
from apps.telemetry.hops import Trace
from apps.telemetry.models import Span
from tests.real_parts import KEY
from tests.retrieval import beir

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(not beir.ROOT.is_dir(), reason=beir.MISSING),
]


@pytest.fixture
def real_encoder(encoder_url: str, settings: Settings) -> Iterator[None]:
    """The registry hands out the one-machine encoder."""
    settings.EMBEDDER, settings.TEI_URL, settings.TEI_API_KEY = "tei", encoder_url, KEY
    registry.forget()
    yield
    registry.forget()


def sample(questions: Sequence[beir.Question], count: int) -> list[beir.Question]:
    return random.Random(1).sample(list(questions), count)  # noqa: S311 - a fixed sample


def ask(collection: Collection, question: str) -> Sequence[Passage]:
    return retrieve(
        tenant_id=collection.tenant_id,
        question=question,
        collection_ids=[collection.id],
        trace=Trace(collection.tenant_id, "answer"),
        limit=10,
    ).passages


def quality(
    collection: Collection, labelled: beir.Labelled, questions: Sequence[beir.Question]
) -> tuple[float, list[float]]:
    """Mean nDCG@10, and the best relevance found for each question; indexes the passages first."""
    _, names = beir.add_passages(collection, labelled.passages)
    index_next()
    gains, relevances = [], []
    for question in questions:
        passages = ask(collection, question.text)
        gains.append(beir.ndcg([names[each.chunk_id] for each in passages], question.relevant))
        relevances.append(max((each.relevance for each in passages), default=0.0))
    return sum(gains) / len(gains), relevances


@pytest.mark.slow
@pytest.mark.usefixtures("embedder", "reranker")
@pytest.mark.parametrize(
    ("language", "least"), [("zh", 0.92), ("th", 0.86), ("ar", 0.85), ("ru", 0.88), ("hi", 0.88)]
)
def test_languages_foreign_to_the_model_are_found_by_their_words(
    collection: Collection, language: str, least: float
) -> None:
    labelled = beir.load(f"xquad-{language}")
    gain, relevances = quality(collection, labelled, sample(labelled.answerable, 60))
    assert gain >= least
    refused = sum(relevance < site_settings.NOT_FOUND_BELOW for relevance in relevances)
    assert refused <= 5


@pytest.mark.slow
@pytest.mark.usefixtures("real_encoder")
def test_a_language_the_model_does_not_know_takes_nothing_from_one_it_does(
    collection: Collection,
) -> None:
    """English and Russian passages side by side, which share names and numbers."""
    gains = {}
    names: dict[uuid.UUID, str] = {}
    labelled = {name: beir.load(f"xquad-{name}").first(60) for name in ("en", "ru")}
    for name, one in labelled.items():
        _, chunks = beir.add_passages(collection, one.passages, language=name)
        names |= {chunk: f"{name} {passage}" for chunk, passage in chunks.items()}
        index_next()
    for name, one in labelled.items():
        gains[name] = [
            beir.ndcg(
                [names[each.chunk_id] for each in ask(collection, question.text)],
                {f"{name} {passage}" for passage in question.relevant},
            )
            for question in sample(one.answerable, 25)
        ]
    assert sum(gains["en"]) / 25 >= 0.93
    assert sum(gains["ru"]) / 25 >= 0.88


@pytest.mark.slow
@pytest.mark.usefixtures("real_encoder")
def test_english_passages_are_found_and_told_from_other_matters(collection: Collection) -> None:
    labelled = beir.load("xquad-en").first(120)
    asked = sample(labelled.answerable, 30)
    foreign = sample(beir.load("scifact").answerable, 10)
    gain, relevances = quality(collection, labelled, [*asked, *foreign])
    answered, off_topic = relevances[: len(asked)], relevances[len(asked) :]
    assert gain * len(relevances) / len(asked) >= 0.95
    assert sum(relevance < site_settings.NOT_FOUND_BELOW for relevance in answered) <= 2
    assert sum(relevance < site_settings.NOT_FOUND_BELOW for relevance in off_topic) >= 8


@pytest.mark.slow
@pytest.mark.usefixtures("real_encoder")
def test_indexing_spends_its_time_in_the_encoder(collection: Collection) -> None:
    """The target is at least 0.8 of the bare encoder's throughput on the same texts."""
    document, _ = beir.add_passages(collection, beir.load("xquad-en").first(64).passages)
    index_next()
    span = Span.objects.get(trace_id=document.id, hop="index")
    assert span.attributes["embed_ms"] / span.work_ms >= 0.8
