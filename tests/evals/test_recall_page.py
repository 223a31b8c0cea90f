"""The page of live recall."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pgvector import HalfVector
from pytest_django import Settings

from apps.retrieval.models import EmbeddingIndex, RecallSample
from tests.cast import Cast, signed_in


@pytest.fixture
def browser(cast: Cast) -> Client:
    return signed_in(cast.carl)


def sample(cast: Cast, *, days_ago: int, plan: str, recall: float | None, rows: int = 100) -> None:
    index, _ = EmbeddingIndex.objects.get_or_create(
        tenant=cast.acme, model_id="m", dimensions=2, chunker_version=1, active=True
    )
    row = RecallSample.objects.create(
        tenant=cast.acme,
        index=index,
        question=HalfVector([1.0, 0.0]),
        collection_ids=[],
        plan=plan,
        wanted=100,
        found=[],
        search_ms=2.5,
        exact_rows=None if recall is None else 100,
        found_rows=rows,
        recall_10=recall,
        recall=recall,
        exact_ms=31.0,
    )
    RecallSample.objects.filter(id=row.id).update(at=timezone.now() - timedelta(days=days_ago))


def page(browser: Client, query: str = "") -> str:
    response = browser.get(reverse("evals:recall", args=["acme"]) + query)
    assert response.status_code == 200
    return str(response.content.decode())


@pytest.mark.django_db
def test_without_samples_it_says_how_they_come_about(browser: Client, settings: Settings) -> None:
    assert "drawn by chance" in page(browser)
    settings.RECALL_SAMPLE_SHARE = 0.0
    assert "Checking is switched off" in page(browser)


@pytest.mark.django_db
def test_days_are_shown_by_plan_with_their_count(browser: Client, cast: Cast) -> None:
    for recall in (0.9, 1.0):
        sample(cast, days_ago=2, plan="hnsw", recall=recall)
    sample(cast, days_ago=1, plan="hnsw", recall=0.8, rows=60)
    sample(cast, days_ago=1, plan="exact", recall=1.0)
    sample(cast, days_ago=1, plan="hnsw", recall=None)  # not checked yet
    text = page(browser)
    assert text.count('class="plot"') == 1
    assert "0.950" in text
    assert "100.0 %" in text  # of the one search that found 60 rows of 100
    assert "4 searches checked" in text
    assert text.count("Exact search</td>") == 1


@pytest.mark.django_db
def test_only_the_days_asked_for_are_shown(browser: Client, cast: Cast) -> None:
    sample(cast, days_ago=20, plan="hnsw", recall=0.9)
    assert "0.900" in page(browser, "?days=30")
    for query in ("?days=7", "?days=%F0%9F%98%80", "?days=-1"):
        assert ("0.900" in page(browser, query)) == (query != "?days=7")


@pytest.mark.django_db
def test_another_tenants_samples_are_not_shown(cast: Cast) -> None:
    sample(cast, days_ago=1, plan="hnsw", recall=0.777)
    response = signed_in(cast.mallory).get(reverse("evals:recall", args=["rival"]))
    assert "0.777" not in response.content.decode()
