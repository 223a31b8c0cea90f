"""A second embedding model that counts words, and builds that are worked on without a worker."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from apps.documents.models import Collection, Document
from apps.inference import registry
from apps.inference.registry import EmbedderSpec
from apps.inference.types import Embedder, Vectors
from apps.retrieval import builds, indexing
from apps.retrieval.models import (
    ChunkVector,
    EmbeddingIndex,
    EmbeddingModel,
    IndexBuild,
    IndexedDocument,
)
from apps.tenants.models import Tenant
from tests.retrieval.corpus import make_document

OTHER_DIMENSIONS = 32


class OtherEmbedder:
    """Another model: other dimensions, and other directions for the same words."""

    model_id = "other-words"
    dimensions = OTHER_DIMENSIONS
    max_tokens = 256

    def __init__(self) -> None:
        self.failures: list[Exception] = []  # raised one a call, first to last
        self.texts: list[str] = []
        self.asked: list[str] = []
        self.before_batch: Callable[[], None] = lambda: None

    def embed_query(self, text: str) -> Vectors:
        self.asked.append(text)
        vector: Vectors = _direction_of(text)
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if self.failures:
            raise self.failures.pop(0)
        self.before_batch()
        self.texts.extend(texts)
        vectors: Vectors = np.stack([_direction_of(text) for text in texts])
        return vectors


def _direction_of(text: str) -> Vectors:
    total = np.full(OTHER_DIMENSIONS, 1e-3, np.float32)
    for word in text.casefold().split():
        digest = hashlib.blake2b(word.encode(), digest_size=4, person=b"other").digest()
        seed = int.from_bytes(digest, "big")
        total += np.random.default_rng(seed).standard_normal(OTHER_DIMENSIONS).astype(np.float32)
    direction: Vectors = total / np.linalg.norm(total)
    return direction


def hand_out(
    monkeypatch: pytest.MonkeyPatch, own: Embedder, other: Embedder, model: EmbeddingModel
) -> None:
    """Have the registry give `other` for `model`, and `own` as the settings' model."""

    def get_embedder(spec: EmbedderSpec | None = None) -> Embedder:
        if spec is None:
            return own
        assert spec.location == model.location
        return other

    monkeypatch.setattr(registry, "get_embedder", get_embedder)


def make_model(label: str = "Other") -> EmbeddingModel:
    return EmbeddingModel.objects.create(
        label=label,
        kind=EmbeddingModel.Kind.TEI,
        location="http://127.0.0.1:9",
        languages=["*"],
    )


def add_ready(collection: Collection, texts: Sequence[str]) -> Document:
    """A document through the indexing job, in the index in force."""
    document = make_document(collection, texts)
    assert indexing.index_next(sleep=lambda _: None)
    return document


def start(tenant: Tenant, model: EmbeddingModel | None, **how: int | float) -> IndexBuild:
    return builds.start_build(tenant=tenant, user=None, model=model, **how)


def work(*, slices: int = 100) -> int:
    """Let every build be worked on until nothing is due; how many slices it took."""
    for done in range(slices):
        if not builds.tend_next():
            return done
    raise AssertionError(f"builds are due after {slices} slices")


def make_due() -> None:
    """As if the time that builds wait for had passed."""
    IndexBuild.objects.update(lease_expires_at=None)


def state_of(build: IndexBuild) -> str:
    return str(IndexBuild.objects.get(id=build.id).state)


def vectors_in(index: EmbeddingIndex | None) -> dict[object, str]:
    """Chunk → vector, as text: equal when equal to the bit."""
    assert index is not None
    rows = ChunkVector.objects.filter(tenant_id=index.tenant_id, index=index, slot=index.slot)
    return {row.chunk_id: str(row.embedding) for row in rows}


def marked_in(index: EmbeddingIndex | None) -> set[object]:
    assert index is not None
    marks = IndexedDocument.objects.filter(tenant_id=index.tenant_id, index=index)
    return set(marks.values_list("document_id", flat=True))
