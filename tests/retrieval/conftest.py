"""A tenant with a collection, and stand-ins for the model servers."""

from __future__ import annotations

import pytest

from apps.documents.models import Collection
from apps.inference import registry
from apps.tenants.models import Tenant
from tests.retrieval.corpus import CoverageReranker, WordEmbedder, make_collection


@pytest.fixture
def tenant() -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme")


@pytest.fixture
def collection(tenant: Tenant) -> Collection:
    return make_collection(tenant)


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> WordEmbedder:
    """The embedder the registry hands out."""
    stand_in = WordEmbedder()
    monkeypatch.setattr(registry, "get_embedder", lambda: stand_in)
    return stand_in


@pytest.fixture
def reranker(monkeypatch: pytest.MonkeyPatch) -> CoverageReranker:
    """The reranker the registry hands out."""
    stand_in = CoverageReranker()
    monkeypatch.setattr(registry, "get_reranker", lambda: stand_in)
    return stand_in
