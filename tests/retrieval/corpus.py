"""Documents with chunks, an embedder that counts words, and rows without the indexing job."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence

import numpy as np

from apps.documents import jobs
from apps.documents.models import Chunk, Collection, Document, DocumentState, Stage
from apps.inference.types import Vectors, WeightedWord
from apps.retrieval import rows
from apps.retrieval.analysis import terms_of
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.texts import indexed_text
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

DIMENSIONS = 64


class WordEmbedder:
    """Texts that share words are close: each word adds its own direction."""

    model_id = "words"
    dimensions = DIMENSIONS
    max_tokens = 256

    def __init__(self) -> None:
        self.failures: list[Exception] = []  # raised one a call, first to last
        self.batches: list[int] = []

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed_documents([text])[0]
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(len(texts))
        vectors: Vectors = np.stack([_direction_of(text) for text in texts])
        return vectors


class CoverageReranker:
    """Scores by the share of the question's words found."""

    name = "late-interaction"

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.words: Sequence[WeightedWord] = ()

    def score(
        self, question: str, passages: Sequence[str], words: Sequence[WeightedWord] = ()
    ) -> list[float]:
        if self.failures:
            raise self.failures.pop(0)
        self.words = words
        asked = set(terms_of(question))
        return [len(asked & set(terms_of(text))) / max(1, len(asked)) for text in passages]


def _direction_of(text: str) -> Vectors:
    total = np.zeros(DIMENSIONS, np.float32)
    for word in text.casefold().split():
        seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big")
        total += np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    norm = float(np.linalg.norm(total))
    direction: Vectors = total / norm if norm else np.eye(1, DIMENSIONS, dtype=np.float32)[0]
    return direction


def make_collection(tenant: Tenant, name: str = "Handbook") -> Collection:
    with tenant_scope(tenant.id):
        return Collection.objects.create(tenant=tenant, name=name)


def make_document(
    collection: Collection,
    texts: Sequence[str],
    *,
    state: str = DocumentState.INDEXING,
    heading: str = "",
    language: str = "",
) -> Document:
    """A parsed and chunked document, one chunk a text."""
    with tenant_scope(collection.tenant_id):
        document = Document.objects.create(
            tenant_id=collection.tenant_id,
            collection=collection,
            path=f"{uuid.uuid4()}/guide.md",
            name="guide.md",
            size_bytes=1,
            sha256=uuid.uuid4().hex,
            storage_key="none",
            state=state,
            language=language,
            chunk_count=len(texts),
        )
        Chunk.objects.bulk_create(
            Chunk(
                tenant_id=collection.tenant_id,
                document=document,
                ordinal=ordinal,
                text=text,
                heading_path=heading,
                char_start=ordinal * 1000,
                char_end=ordinal * 1000 + max(1, len(text)),
                page_first=ordinal + 1,
                page_last=ordinal + 1,
                token_count=len(text.split()),
            )
            for ordinal, text in enumerate(texts)
        )
        if state == DocumentState.INDEXING:
            jobs.submit(document, Stage.INDEX)
    return document


def chunk_ids(document: Document) -> list[uuid.UUID]:
    """In reading order."""
    with tenant_scope(document.tenant_id):
        chunks = Chunk.objects.filter(tenant_id=document.tenant_id, document=document)
        return list(chunks.order_by("ordinal").values_list("id", flat=True))


def write_rows(document: Document) -> EmbeddingIndex:
    """What the indexing job writes, without the job; the document is ready afterwards."""
    tenant_id = document.tenant_id
    index, _ = EmbeddingIndex.objects.get_or_create(
        tenant_id=tenant_id,
        model_id=WordEmbedder.model_id,
        dimensions=DIMENSIONS,
        chunker_version=1,
        active=True,
    )
    with tenant_scope(tenant_id):
        chunks = list(Chunk.objects.filter(tenant_id=tenant_id, document=document))
        texts = [indexed_text(chunk) for chunk in chunks]
        vectors = [vector.astype(np.float16) for vector in map(WordEmbedder().embed_query, texts)]
        terms = rows.term_rows(rows.language_of(document), chunks, texts)
        rows.replace(document, index, chunks, vectors, terms)
        Document.objects.filter(tenant_id=tenant_id, id=document.id).update(
            state=DocumentState.READY
        )
    return index


def delete_document(document: Document) -> None:
    """As `documents` does: the row goes, and the database does the rest."""
    with tenant_scope(document.tenant_id):
        Document.objects.filter(tenant_id=document.tenant_id, id=document.id).delete()
