"""The loop that fills an index: ready documents that are not wholly in it, a piece at a time.

Building an index, keeping two in step and going on after a crash are all this loop. It works for
a slice of time and gives way: to ingestion after every piece, and to the throttle.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter

from django.db import connection
from django.db.models import F

from apps.documents import jobs
from apps.documents.errors import DocumentError
from apps.documents.models import Document, Stage
from apps.documents.rechunking import DocumentGone
from apps.inference.errors import InferenceError, Rejected
from apps.retrieval import embedders, slots
from apps.retrieval.builds import leases
from apps.retrieval.builds.leases import BuildClaim
from apps.retrieval.builds.pieces import Adding, add_piece
from apps.retrieval.builds.selectors import missing_documents
from apps.retrieval.models import EmbeddingIndex, IndexBuild
from apps.tenants.scope import tenant_scope
from worker.sandbox import SandboxError

logger = logging.getLogger(__name__)

SLICE_S = 10.0
# A throttled build works for so long at a time, and waits for the rest.
TICK_S = 5.0
RETRY_S = 15.0  # while the model or the file storage stays away
MODEL_CHANGED = "model_changed"  # what is served is not what the index is by
_PAGE = 100  # documents looked up at once


@dataclass
class Slice:
    """A stretch of work, and what it has come to."""

    passages_per_s: float | None
    started: float = field(default_factory=perf_counter)
    passages: int = 0
    gave_way: bool = False  # to documents that wait to be ingested

    @property
    def elapsed_s(self) -> float:
        return perf_counter() - self.started

    def is_over(self) -> bool:
        """After every piece; never before the first, so that other work cannot starve a build."""
        self.gave_way = any(jobs.waiting(stage, at_most=1) for stage in Stage)
        spent = self.passages_per_s and self.passages >= self.passages_per_s * TICK_S
        return self.gave_way or bool(spent) or self.elapsed_s > SLICE_S

    @property
    def pause_s(self) -> float:
        """Until the next one: the throttle's, and as long as it took where others wait."""
        throttle = self.passages / self.passages_per_s if self.passages_per_s else 0.0
        waiting = self.elapsed_s if self.gave_way else 0.0
        return max(0.0, throttle - self.elapsed_s, waiting)


def fill(claim: BuildClaim, build: IndexBuild, index: EmbeddingIndex) -> float | None:
    """Add what `index` lacks, for a slice of time; the seconds to wait before going on.

    None when every document that lacked was added, or refused by the model itself. Raises Lost.
    """
    if not _is_missing_any(index):
        if build.error_code:
            leases.held(claim).update(error_code="")
        return None
    work = Slice(build.passages_per_s)
    code, wait_s = "", 0.0
    try:
        slots.ensure_partition(index.slot)
        embedder = embedders.embedder_of(index)
        if (embedder.model_id, embedder.dimensions) == (index.model_id, index.dimensions):
            code, is_through = _work(Adding(claim, index, embedder), work)
        else:  # its vectors are never mixed with another's: an old index then stays as it is
            code, wait_s, is_through = MODEL_CHANGED, RETRY_S, index.id != build.target_id
        if is_through:
            leases.held(claim).update(error_code=code[:60])
            return None
    except InferenceError as exc:
        code, wait_s = f"embedder_{exc.code}", RETRY_S
    except (DocumentError, SandboxError) as exc:  # the file storage, or no sandbox to be had
        code, wait_s = exc.code, RETRY_S
    except slots.PartitionBusy as exc:
        code, wait_s = exc.code, RETRY_S
    finally:
        _note(claim, work)
    leases.held(claim).update(error_code=code[:60])
    return max(wait_s, work.pause_s)


def _work(adding: Adding, work: Slice) -> tuple[str, bool]:
    """Pieces until the slice is over, or no document is left.

    The code of what a document was passed over for, if any was, and whether none is left.
    """
    code = ""
    for document in _missing(adding.index):
        try:
            code = _add(adding, document, work) or code
        except Rejected as exc:  # this text is at fault: the others are not to wait for it
            logger.warning("document %s not added to an index (%s)", document.id, exc.code)
            code = f"embedder_{exc.code}"
        if work.is_over():
            return code, False
    return code, True


def _add(adding: Adding, document: Document, work: Slice) -> str:
    """A document's pieces, until the slice is over or it is whole."""
    while True:
        try:
            work.passages += add_piece(adding, document)
        except DocumentGone as exc:
            return exc.code
        if _is_in(adding.index, document) or work.is_over():
            return ""


def doubt(index: EmbeddingIndex) -> int:
    """Take the marks back that the index's rows do not bear out; how many. They are added anew.

    One look at the end of a build: nothing is known to bring this about, and an index that lacks
    passages without saying so would be put in force.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            DELETE FROM retrieval_indexeddocument AS mark
            WHERE tenant_id = %s AND index_id = %s AND chunk_count <> (
                SELECT count(*) FROM search.chunkvector AS row
                WHERE row.tenant_id = mark.tenant_id AND row.document_id = mark.document_id
                    AND row.index_id = mark.index_id AND row.slot = %s)
            """,
            [index.tenant_id, index.id, index.slot],
        )
        return int(cursor.rowcount)


def _missing(index: EmbeddingIndex) -> Iterator[Document]:
    last = uuid.UUID(int=0)
    while True:
        with tenant_scope(index.tenant_id):
            page = list(missing_documents(index).filter(id__gt=last).order_by("id")[:_PAGE])
        if not page:
            return
        yield from page
        last = page[-1].id


def _is_missing_any(index: EmbeddingIndex) -> bool:
    with tenant_scope(index.tenant_id):
        return missing_documents(index).exists()


def _is_in(index: EmbeddingIndex, document: Document) -> bool:
    with tenant_scope(index.tenant_id):
        return not missing_documents(index).filter(id=document.id).exists()


def _note(claim: BuildClaim, work: Slice) -> None:
    """For progress and the time left; a killed slice is not counted."""
    if work.passages:
        IndexBuild.objects.filter(tenant_id=claim.tenant_id, id=claim.build_id).update(
            chunks_done=F("chunks_done") + work.passages, embed_s=F("embed_s") + work.elapsed_s
        )
