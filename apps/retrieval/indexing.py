"""Making a document findable: embed its chunks, weigh their words, and say "ready".

Vectors, BM25 rows and the state are written in one transaction: nobody finds half a document, and
a job killed at any time leaves nothing behind. It starts over then; what is embedded twice is one
small document at most, or one piece of a large one.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from django.conf import settings

from apps.documents import jobs
from apps.documents.chunking import CHUNKER_VERSION
from apps.documents.jobs import Claim
from apps.documents.models import Chunk, Collection, Document, DocumentState, Stage
from apps.inference import registry
from apps.inference.errors import InferenceError
from apps.inference.types import Embedder
from apps.retrieval import bm25, rows, staging
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.rows import TermRow
from apps.retrieval.texts import indexed_text
from apps.telemetry.hops import Hop, Trace
from apps.telemetry.services import record_trace
from apps.tenants.scope import tenant_scope
from worker.enqueue import enqueue

T = TypeVar("T")

EMBED_BATCH = 64
EMBED_ATTEMPTS = 3  # before the job is put back: with the waits between them, a few seconds
# While the embedder stays away: how often it is tried, and when the document is given up.
RETRY_S = 15.0
PATIENCE_S = 24 * 60 * 60.0
# Larger documents are indexed piece by piece (see `staging`), and give way to other tenants' when
# they have been at it for a slice of time.
STAGE_ABOVE = 1024
PIECE_CHUNKS = 512
SLICE_S = 10.0


def index_next(*, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Index the chunked document whose turn it is; False when none waits.

    It ends as ready, or failed with a reason to act on; while the embedder is away it waits.
    `sleep` is called between attempts to reach the embedder.
    """
    claim = jobs.take(Stage.INDEX)
    if claim is None:
        return False
    document = jobs.begin(claim, DocumentState.INDEXING)
    if document is None:
        return True
    trace = Trace(claim.tenant_id, "ingestion", trace_id=claim.document_id)
    try:
        with trace.hop("index", wait_ms=claim.wait_ms) as hop:
            _index(_Work(document, claim, hop, sleep))
    except InferenceError as exc:
        _give_up(claim, exc)
    finally:
        record_trace(trace)
    jobs.wake_workers(Stage.INDEX, at_most=1)
    return True


def _give_up(claim: Claim, exc: InferenceError) -> None:
    code = f"embedder_{exc.code}"
    if exc.retryable and claim.wait_ms < PATIENCE_S * 1000:
        message = f"Waiting for the embedding server. {exc}"
        jobs.wait(claim, delay_s=RETRY_S, code=code, message=message)
        return
    jobs.mark_failed(
        claim,
        code=code,
        message=f"The text could not be embedded. {exc} Then press Retry on this document.",
    )


@dataclass
class _Work:
    """A document being indexed, and what it has cost so far."""

    document: Document
    claim: Claim
    hop: Hop
    sleep: Callable[[float], None]
    embed_ms: float = 0.0
    write_ms: float = 0.0
    chunks: int = 0
    tokens: int = 0

    def measure(self) -> None:
        self.hop.set(
            chunks=self.chunks,
            tokens=self.tokens,
            embed_ms=round(self.embed_ms, 1),
            write_ms=round(self.write_ms, 1),
        )


def _index(work: _Work) -> None:
    embedder = registry.get_embedder()
    # A remote embedder is asked for its name and dimensions here.
    index = _patiently(
        partial(ensure_index, tenant_id=work.claim.tenant_id, embedder=embedder), work.sleep
    )
    if work.document.chunk_count <= STAGE_ABOVE:
        outcome = _index_at_once(work, index, embedder)
    else:
        outcome = _index_in_pieces(work, index, embedder)
    work.measure()
    if outcome != "ready":
        work.hop.end_as("skipped", outcome)


def _index_at_once(work: _Work, index: EmbeddingIndex, embedder: Embedder) -> str:
    """Embed all chunks, then write everything and "ready" in one transaction."""
    piece = _embed(work, embedder, first=0, count=STAGE_ABOVE)
    start = perf_counter()
    with tenant_scope(work.claim.tenant_id):
        if not _lock(work):
            return "document_gone"
        rows.replace(work.document, index, piece.chunks, piece.vectors, piece.terms)
        _make_ready(work)
    work.write_ms += (perf_counter() - start) * 1000
    return "ready"


def _index_in_pieces(work: _Work, index: EmbeddingIndex, embedder: Embedder) -> str:
    deadline = perf_counter() + SLICE_S
    done = staging.count_staged(work.document, index)
    while done < work.document.chunk_count:
        piece = _embed(work, embedder, first=done, count=PIECE_CHUNKS)
        if not piece.chunks:
            break
        start = perf_counter()
        with tenant_scope(work.claim.tenant_id):
            if not _lock(work):
                return "document_gone"
            staging.stage(work.document, index, piece.chunks, piece.vectors, piece.terms)
        work.write_ms += (perf_counter() - start) * 1000
        done += len(piece.chunks)
        if perf_counter() > deadline and jobs.waiting(Stage.INDEX):
            return "gave_turn" if jobs.give_turn(work.claim) else "document_gone"
    start = perf_counter()
    with tenant_scope(work.claim.tenant_id):
        if not _lock(work):
            return "document_gone"
        staging.publish(work.document, index)
        _make_ready(work)
    work.write_ms += (perf_counter() - start) * 1000
    return "ready"


def _make_ready(work: _Work) -> None:
    """In the transaction that wrote the rows; older versions stop being found in the same step."""
    tenant_id, collection_id = work.document.tenant_id, work.document.collection_id
    superseded = jobs.mark_ready(work.claim)
    if superseded:
        rows.remove(tenant_id, superseded)
    if bm25.has_drifted(tenant_id, collection_id):
        enqueue("retrieval.weigh_collection", tenant_id=tenant_id, collection_id=str(collection_id))


def ensure_index(*, tenant_id: uuid.UUID, embedder: Embedder) -> EmbeddingIndex:
    """The tenant's index for the configured model; its first one becomes the active one."""
    index, _ = EmbeddingIndex.objects.get_or_create(
        tenant_id=tenant_id,
        model_id=embedder.model_id,
        dimensions=embedder.dimensions,
        query_prompt=settings.EMBEDDING_QUERY_PROMPT,
        chunker_version=CHUNKER_VERSION,
    )
    others = EmbeddingIndex.objects.filter(tenant_id=tenant_id, active=True)
    if not index.active and not others.exists():
        # Two first documents at once: both set the same row, or the unique key stops the second.
        EmbeddingIndex.objects.filter(tenant_id=tenant_id, id=index.id).update(active=True)
        index.active = True
    return index


@dataclass(frozen=True)
class _Piece:
    """Chunks with what is written of them, in the order they were embedded in."""

    chunks: Sequence[Chunk]
    vectors: Sequence[npt.NDArray[np.float16]]
    terms: Sequence[TermRow]


def _embed(work: _Work, embedder: Embedder, *, first: int, count: int) -> _Piece:
    """The chunks from `first` on, `count` at most, embedded a batch at a time and analysed."""
    chunks = _read_chunks(work.document, first, count)
    texts = [indexed_text(chunk) for chunk in chunks]
    # One row of halves a text; kept as they will be stored, which is half the memory.
    vectors: list[npt.NDArray[np.float16]] = []
    for at in range(0, len(texts), EMBED_BATCH):
        start = perf_counter()
        batch = texts[at : at + EMBED_BATCH]
        embedded = _patiently(partial(embedder.embed_documents, batch), work.sleep)
        vectors.extend(embedded.astype(np.float16))
        work.embed_ms += (perf_counter() - start) * 1000
        _report(work, first + len(vectors))
    work.chunks += len(chunks)
    work.tokens += sum(chunk.token_count for chunk in chunks)
    return _Piece(chunks, vectors, rows.term_rows(work.document, chunks, texts))


def _report(work: _Work, done: int) -> None:
    """Renews the lease too. Whether the job is still ours is asked before anything is written."""
    total = work.document.chunk_count
    if done < total:
        jobs.report_progress(work.claim, done=done, total=total)


def _read_chunks(document: Document, first: int, count: int) -> list[Chunk]:
    """Shortest first: a batch is padded to its longest text."""
    with tenant_scope(document.tenant_id):
        return sorted(
            Chunk.objects.filter(
                tenant_id=document.tenant_id,
                document_id=document.id,
                ordinal__gte=first,
                ordinal__lt=first + count,
            ).only("id", "text", "heading_path", "token_count", "ordinal"),
            key=lambda chunk: (chunk.token_count, chunk.ordinal),
        )


def _patiently(call: Callable[[], T], sleep: Callable[[float], None]) -> T:
    """The result of `call`, tried again where the embedder may yet answer."""
    for attempt in range(1, EMBED_ATTEMPTS):
        try:
            return call()
        except InferenceError as exc:
            if not exc.retryable:
                raise
        # 1, 2, 4, 8 s, each stretched by up to half so that workers do not return together.
        sleep(2.0 ** (attempt - 1) * random.uniform(1.0, 1.5))  # noqa: S311 - not a secret
    return call()


def _lock(work: _Work) -> bool:
    """Hold collection, document and job: the order a deletion takes them in, so no deadlock."""
    held = Collection.objects.select_for_update(no_key=True).filter(
        tenant_id=work.document.tenant_id, id=work.document.collection_id
    )
    return bool(held) and jobs.hold(work.claim)
