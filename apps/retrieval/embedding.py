"""Chunks made into what is written of them: vectors and BM25 input, a batch at a time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from apps.documents import jobs
from apps.documents.jobs import Claim
from apps.documents.models import Chunk, Document
from apps.inference.errors import InferenceError
from apps.inference.types import Embedder
from apps.retrieval import rows
from apps.retrieval.rows import TermRow
from apps.retrieval.texts import indexed_text
from apps.telemetry.hops import Hop, ModelUse
from apps.tenants.scope import tenant_scope

T = TypeVar("T")

EMBED_BATCH = 64
EMBED_ATTEMPTS = 3  # before the job is put back: with the waits between them, a few seconds


class Lost(Exception):
    """The document was deleted, or another attempt took it over: stop, and say nothing."""

    code = "document_gone"


@dataclass
class Work:
    """A document being indexed, and what it has cost so far."""

    document: Document
    claim: Claim
    hop: Hop
    sleep: Callable[[float], None] = time.sleep
    language: str = field(init=False)
    embed_ms: float = 0.0
    write_ms: float = 0.0
    chunks: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        with tenant_scope(self.claim.tenant_id):
            self.language = rows.language_of(self.document)

    def measure(self, model_id: str) -> None:
        """Note what it has cost with the hop."""
        if self.tokens:
            self.hop.used(ModelUse("embed", model_id, self.tokens, self.embed_ms))
        self.hop.set(
            chunks=self.chunks,
            tokens=self.tokens,
            embed_ms=round(self.embed_ms, 1),
            write_ms=round(self.write_ms, 1),
        )


@dataclass(frozen=True)
class Piece:
    """Chunks with what is written of them, in the order they were embedded in."""

    chunks: Sequence[Chunk]
    vectors: Sequence[npt.NDArray[np.float16]]
    terms: Sequence[TermRow]


def embed_chunks(work: Work, embedder: Embedder, *, first: int, count: int) -> Piece:
    """The chunks from `first` on, `count` at most, embedded a batch at a time and analysed.

    Raises Lost, or an InferenceError once the embedder has been given its attempts.
    """
    chunks = _read_chunks(work.document, first, count)
    texts = [indexed_text(chunk) for chunk in chunks]
    # One row of halves a text; kept as they will be stored, which is half the memory.
    vectors: list[npt.NDArray[np.float16]] = []
    for at in range(0, len(texts), EMBED_BATCH):
        start = perf_counter()
        batch = texts[at : at + EMBED_BATCH]
        embedded = patiently(work, partial(embedder.embed_documents, batch))
        vectors.extend(embedded.astype(np.float16))
        work.embed_ms += (perf_counter() - start) * 1000
        _report(work, first + len(vectors))
    work.chunks += len(chunks)
    work.tokens += sum(chunk.token_count for chunk in chunks)
    return Piece(chunks, vectors, rows.term_rows(work.language, chunks, texts))


def patiently(work: Work, call: Callable[[], T]) -> T:
    """The result of `call`, tried again where the embedder may yet answer.

    A server that hangs takes its whole timeout each time: the job is held on in between.
    """
    for attempt in range(1, EMBED_ATTEMPTS):
        try:
            return call()
        except InferenceError as exc:
            if not exc.retryable:
                raise
        # 1, 2, 4, 8 s, each stretched by up to half so that workers do not return together.
        work.sleep(2.0 ** (attempt - 1) * random.uniform(1.0, 1.5))  # noqa: S311 - not a secret
        if not jobs.renew(work.claim):
            raise Lost
    return call()


def _report(work: Work, done: int) -> None:
    """Renews the lease too; the last batch is followed by a write, which does."""
    total = work.document.chunk_count
    if done < total and not jobs.report_progress(work.claim, done=done, total=total):
        raise Lost


def _read_chunks(document: Document, first: int, count: int) -> list[Chunk]:
    """Shortest first: a batch is padded to its longest text."""
    with tenant_scope(document.tenant_id):
        return sorted(
            Chunk.objects.filter(
                tenant_id=document.tenant_id,
                document_id=document.id,
                generation=document.generation,
                ordinal__gte=first,
                ordinal__lt=first + count,
            ).only("id", "text", "heading_path", "token_count", "ordinal"),
            key=lambda chunk: (chunk.token_count, chunk.ordinal),
        )
