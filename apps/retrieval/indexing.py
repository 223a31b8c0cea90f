"""Making a document findable: embed its chunks, weigh their words, and say "ready".

Vectors, BM25 rows and the state are written in one transaction: nobody finds half a document, and
a job killed at any time leaves nothing behind. It starts over then; what is embedded twice is one
document at most.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from time import perf_counter
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from django.conf import settings
from django.utils import timezone

from apps.documents import jobs
from apps.documents.chunking import CHUNKER_VERSION
from apps.documents.models import Chunk, Collection, Document, DocumentState
from apps.inference import registry
from apps.inference.errors import InferenceError
from apps.inference.types import Embedder
from apps.retrieval import bm25, rows
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.texts import indexed_text
from apps.telemetry.hops import Hop, Trace
from apps.telemetry.services import record_trace
from apps.tenants.scope import tenant_scope
from worker.enqueue import enqueue

T = TypeVar("T")

EMBED_BATCH = 64
EMBED_ATTEMPTS = 5  # with the waits between them, about half a minute of patience


def index_document(
    *, tenant_id: uuid.UUID, document_id: uuid.UUID, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Index a chunked document and mark it ready, or failed with a reason to act on.

    Does nothing when another worker holds the document, or it is gone or finished. `sleep` is
    called between attempts to reach the embedder.
    """
    since = _waiting_since(tenant_id, document_id)
    document = jobs.claim(
        tenant_id=tenant_id,
        document_id=document_id,
        from_states=(DocumentState.INDEXING,),
        to_state=DocumentState.INDEXING,
    )
    if document is None or since is None:
        return
    trace = Trace(tenant_id, "ingestion", trace_id=document_id)
    try:
        with trace.hop("index", wait_ms=(timezone.now() - since).total_seconds() * 1000) as hop:
            _index(document, hop, sleep)
    except InferenceError as exc:
        jobs.mark_failed(
            tenant_id=tenant_id,
            document_id=document_id,
            code=f"embedder_{exc.code}",
            message=f"The text could not be embedded. {exc} Then press Retry on this document.",
        )
    finally:
        record_trace(trace)


def _waiting_since(tenant_id: uuid.UUID, document_id: uuid.UUID) -> datetime | None:
    with tenant_scope(tenant_id):
        found = Document.objects.filter(tenant_id=tenant_id, id=document_id)
        return found.values_list("updated_at", flat=True).first()


def _index(document: Document, hop: Hop, sleep: Callable[[float], None]) -> None:
    chunks = _read_chunks(document)
    embedder = registry.get_embedder()
    # A remote embedder is asked for its name and dimensions here.
    index = _patiently(
        partial(ensure_index, tenant_id=document.tenant_id, embedder=embedder), sleep
    )
    texts = [indexed_text(chunk) for chunk in chunks]
    start = perf_counter()
    vectors = _embed(document, embedder, texts, sleep)
    embedded = perf_counter()
    written = _write(document, index, chunks, vectors, texts)
    hop.set(
        chunks=len(chunks),
        tokens=sum(chunk.token_count for chunk in chunks),
        embed_ms=round((embedded - start) * 1000, 1),
        write_ms=round((perf_counter() - embedded) * 1000, 1),
    )
    if not written:
        hop.end_as("skipped", "document_gone")


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


def _read_chunks(document: Document) -> list[Chunk]:
    """Shortest first: a batch is padded to its longest text."""
    with tenant_scope(document.tenant_id):
        return list(
            Chunk.objects.filter(tenant_id=document.tenant_id, document_id=document.id)
            .order_by("token_count", "ordinal")
            .only("id", "text", "heading_path", "token_count", "ordinal")
        )


def _embed(
    document: Document, embedder: Embedder, texts: Sequence[str], sleep: Callable[[float], None]
) -> list[npt.NDArray[np.float16]]:
    """One row of halves a text; kept as they will be stored, which is half the memory."""
    halves: list[npt.NDArray[np.float16]] = []
    for at in range(0, len(texts), EMBED_BATCH):
        batch = texts[at : at + EMBED_BATCH]
        vectors = _patiently(partial(embedder.embed_documents, batch), sleep)
        halves.extend(vectors.astype(np.float16))
        # Renews the lease too.
        jobs.report_progress(
            tenant_id=document.tenant_id,
            document_id=document.id,
            done=len(halves),
            total=len(texts),
        )
    return halves


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


def _write(
    document: Document,
    index: EmbeddingIndex,
    chunks: Sequence[Chunk],
    vectors: Sequence[npt.NDArray[np.float16]],
    texts: Sequence[str],
) -> bool:
    """Replace the document's rows and mark it ready; False when it is gone or no longer ours."""
    term_rows = rows.term_rows(document, chunks, texts)
    with tenant_scope(document.tenant_id):
        if not _lock(document):
            return False
        rows.replace(document, index, chunks, vectors, term_rows)
        jobs.mark_ready(tenant_id=document.tenant_id, document_id=document.id)
        if bm25.has_drifted(document.tenant_id, document.collection_id):
            enqueue(
                "retrieval.weigh_collection",
                tenant_id=document.tenant_id,
                collection_id=str(document.collection_id),
            )
    return True


def _lock(document: Document) -> bool:
    """Hold collection, then document: the order a deletion takes them in, so no deadlock."""
    held = Collection.objects.select_for_update(no_key=True).filter(
        tenant_id=document.tenant_id, id=document.collection_id
    )
    ours = Document.objects.select_for_update(no_key=True).filter(
        tenant_id=document.tenant_id, id=document.id, state=DocumentState.INDEXING
    )
    return bool(held) and bool(ours)
