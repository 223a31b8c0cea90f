"""Making a document findable: embed its chunks, weigh their words, and say "ready".

Vectors, BM25 rows and the state are written in one transaction: nobody finds half a document, and
a job killed at any time leaves nothing behind. It starts over then; what is embedded twice is one
small document at most, or one piece of a large one.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter

from django.conf import settings

from apps.documents import jobs
from apps.documents.chunking import CHUNKER_VERSION
from apps.documents.jobs import Claim
from apps.documents.models import Collection, Document, DocumentState, Stage
from apps.inference import registry
from apps.inference.errors import InferenceError
from apps.inference.types import Embedder
from apps.retrieval import bm25, embedders, rows, selectors, staging
from apps.retrieval.embedding import Lost, Work, embed_chunks, patiently
from apps.retrieval.models import EmbeddingIndex
from apps.telemetry.hops import Trace
from apps.telemetry.services import record_trace
from apps.tenants.scope import tenant_scope
from worker.enqueue import enqueue, wake

RETRY_S = 15.0  # while the embedder stays away
# Larger documents are indexed piece by piece (see `staging`), and give way to other documents when
# they have been at it for a slice of time.
STAGE_ABOVE = 1024
PIECE_CHUNKS = 512
SLICE_S = 10.0


class Switched(Exception):
    """Another index has been put in force since the document began to be indexed."""

    code = "index_switched"


def index_next(*, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Index the chunked document whose turn it is; False when none waits.

    It ends as ready, or failed with a reason to act on; while the embedder is away it waits.
    `sleep` is called between attempts to reach the embedder.
    """
    claim = jobs.take(Stage.INDEX)
    if claim is None:
        return False
    try:
        with jobs.noting_crashes(claim):
            document = jobs.begin(claim, DocumentState.INDEXING)
            if document is not None:
                _index_or_say_why(document, claim, sleep)
    finally:
        jobs.wake_others(claim)
    return True


def _index_or_say_why(document: Document, claim: Claim, sleep: Callable[[float], None]) -> None:
    trace = Trace(
        claim.tenant_id,
        "ingestion",
        trace_id=claim.document_id,
        collection_ids=(document.collection_id,),
    )
    try:
        with trace.hop("index", wait_ms=claim.wait_ms) as hop:
            _index(Work(document, claim, hop, sleep))
    except Lost as exc:
        trace.hops[0].end_as("skipped", exc.code)
    except Switched as exc:
        trace.hops[0].end_as("skipped", exc.code)
        with tenant_scope(claim.tenant_id):  # from the beginning, for the index now in force
            jobs.give_turn(claim)
    except InferenceError as exc:
        _give_up(claim, exc)
    finally:
        record_trace(trace)


def _give_up(claim: Claim, exc: InferenceError) -> None:
    code = f"embedder_{exc.code}"
    message = f"Waiting for the embedding server. {exc}"
    if not (exc.retryable and jobs.wait(claim, delay_s=RETRY_S, code=code, message=message)):
        jobs.mark_failed(
            claim,
            code=code,
            message=f"The text could not be embedded. {exc} Then press Retry on this document.",
        )


def _index(work: Work) -> None:
    # A remote embedder is asked for its name and dimensions here.
    index = patiently(work, partial(index_to_fill, work.claim.tenant_id))
    if work.document.generation != index.generation:
        # Passages have begun to be cut otherwise since this document was read.
        return _read_anew(work)
    embedder = embedders.embedder_of(index)
    try:
        if work.document.chunk_count <= STAGE_ABOVE:
            _index_at_once(work, index, embedder)
        else:
            _index_in_pieces(work, index, embedder)
    finally:
        work.measure(index.model_id)


def _read_anew(work: Work) -> None:
    with tenant_scope(work.claim.tenant_id):
        if not (jobs.hold(work.claim) and jobs.pass_on(work.claim, Stage.INGEST)):
            raise Lost
    work.hop.end_as("skipped", "cut_anew")


def _index_at_once(work: Work, index: EmbeddingIndex, embedder: Embedder) -> None:
    """Embed all chunks, then write everything and "ready" in one transaction."""
    piece = embed_chunks(work, embedder, first=0, count=STAGE_ABOVE)
    with _writing(work, index):
        _mark_ready(work)
        rows.replace(work.document, index, piece.chunks, piece.vectors, piece.terms)
        _weigh_where_drifted(work.document, index)


def _index_in_pieces(work: Work, index: EmbeddingIndex, embedder: Embedder) -> None:
    deadline = perf_counter() + SLICE_S
    done = staging.count_staged(work.document, index)
    while done < work.document.chunk_count:
        piece = embed_chunks(work, embedder, first=done, count=PIECE_CHUNKS)
        with _writing(work, index):
            staging.stage(work.document, index, piece.chunks, piece.vectors, piece.terms)
            jobs.note_further(work.claim)
        done += len(piece.chunks)
        if perf_counter() > deadline and jobs.waiting(Stage.INDEX, at_most=1):
            if not jobs.give_turn(work.claim):
                raise Lost
            work.hop.end_as("skipped", "gave_turn")
            return
    with _writing(work, index):
        _mark_ready(work)
        staging.publish(work.document, index)
        _weigh_where_drifted(work.document, index)
        wake("retrieval.tend_ann_indexes")  # the tenant may have become a large one


def _mark_ready(work: Work) -> None:
    """Older versions stop being found in the same step.

    Their rows in `documents` are locked before any statistics are, as deletions do it.
    """
    superseded = jobs.mark_ready(work.claim)
    if superseded:
        rows.remove(work.claim.tenant_id, superseded)


def _weigh_where_drifted(document: Document, index: EmbeddingIndex) -> None:
    tenant_id, collection_id = document.tenant_id, document.collection_id
    if bm25.has_drifted(tenant_id, collection_id, index.generation):
        enqueue("retrieval.weigh_collection", tenant_id=tenant_id, collection_id=str(collection_id))


def index_to_fill(tenant_id: uuid.UUID) -> EmbeddingIndex:
    """The index that documents go into: the active one; the first document makes it.

    Where the settings name another model than the active one is by, documents go into an index of
    that model beside it, and are found by their words until it is switched to: no two models'
    vectors are ever in one index.
    """
    active = selectors.active_index(tenant_id)
    if active is not None and active.embedder_id is not None:
        return active
    embedder = registry.get_embedder()
    if active and (embedder.model_id, embedder.dimensions) == (active.model_id, active.dimensions):
        return active
    return ensure_index(
        tenant_id=tenant_id, embedder=embedder, generation=active.generation if active else 0
    )


def ensure_index(
    *, tenant_id: uuid.UUID, embedder: Embedder, generation: int = 0
) -> EmbeddingIndex:
    """The tenant's index for the configured model; its first one becomes the active one."""
    index, _ = EmbeddingIndex.objects.get_or_create(
        tenant_id=tenant_id,
        model_id=embedder.model_id,
        dimensions=embedder.dimensions,
        query_prompt=settings.EMBEDDING_QUERY_PROMPT,
        document_prompt="",
        chunker_version=CHUNKER_VERSION,
        generation=generation,
    )
    others = EmbeddingIndex.objects.filter(tenant_id=tenant_id, active=True)
    if not index.active and not others.exists():
        # Two first documents at once: both set the same row, or the unique key stops the second.
        EmbeddingIndex.objects.filter(tenant_id=tenant_id, id=index.id).update(active=True)
        index.active = True
    return index


@contextmanager
def _writing(work: Work, index: EmbeddingIndex) -> Iterator[None]:
    """A transaction that holds collection, document and job: the order deletions take them in.

    Raises Lost where one of them is gone, and Switched where another index has been put in force
    since `index` was chosen: a switch takes the collection's lock too.
    """
    start = perf_counter()
    with tenant_scope(work.claim.tenant_id):
        held = Collection.objects.select_for_update(no_key=True).filter(
            tenant_id=work.document.tenant_id, id=work.document.collection_id
        )
        if not (held and jobs.hold(work.claim)):
            raise Lost
        if not EmbeddingIndex.objects.filter(
            tenant_id=index.tenant_id, id=index.id, active=index.active
        ).exists():
            raise Switched
        yield
    work.write_ms += (perf_counter() - start) * 1000
