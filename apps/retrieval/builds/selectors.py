"""What an index lacks, and how far a build has come. All of it inside the tenant's scope."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef, QuerySet, Sum

from apps.documents.models import Chunk, Document, DocumentState
from apps.retrieval.models import (
    ChunkVector,
    EmbeddingIndex,
    EmbeddingModel,
    IndexBuild,
    IndexedDocument,
    SwitchOverride,
)

_ROW_BYTES = 128


@dataclass(frozen=True)
class Progress:
    """How far a build is, in passages as they are cut now."""

    documents: int
    documents_done: int
    passages: int
    passages_done: int
    passages_per_s: float | None  # of the work, without waiting; None before the first passages
    seconds_left: float | None  # None where it cannot be told
    cut_anew: int | None = None  # passages they have become; None where they are not cut anew

    @property
    def percent(self) -> int:
        return 100 * self.passages_done // self.passages if self.passages else 100


@dataclass(frozen=True)
class IndexFigures:
    """What an index holds. The size is what its vectors take without their indexes."""

    documents: int
    passages: int
    size_bytes: int


def index_figures(index: EmbeddingIndex) -> IndexFigures:
    """Counted by what is marked as wholly in it."""
    marks = IndexedDocument.objects.filter(tenant_id=index.tenant_id, index=index)
    counted = marks.aggregate(passages=Sum("chunk_count"), documents=Count("id"))
    passages = int(counted["passages"] or 0)
    # Two bytes a dimension, and a row's header with its five identifiers.
    size_bytes = passages * (2 * index.dimensions + _ROW_BYTES)
    return IndexFigures(int(counted["documents"]), passages, size_bytes)


def missing_documents(index: EmbeddingIndex) -> QuerySet[Document]:
    """Ready documents that are not wholly in the index."""
    marks = IndexedDocument.objects.filter(
        tenant_id=index.tenant_id, index=index, document_id=OuterRef("id")
    )
    ready = Document.objects.filter(tenant_id=index.tenant_id, state=DocumentState.READY)
    return ready.exclude(Exists(marks))


def chunks_without_vector(index: EmbeddingIndex, document: Document) -> QuerySet[Chunk]:
    """The document's chunks of the index's generation that have no vector in it."""
    vectors = ChunkVector.objects.filter(
        tenant_id=index.tenant_id, index=index, slot=index.slot, chunk_id=OuterRef("id")
    )
    chunks = Chunk.objects.filter(
        tenant_id=index.tenant_id, document_id=document.id, generation=index.generation
    )
    return chunks.exclude(Exists(vectors))


def ready_passages(tenant_id: uuid.UUID) -> int:
    """Passages of all ready documents, as they are cut now."""
    ready = Document.objects.filter(tenant_id=tenant_id, state=DocumentState.READY)
    return int(ready.aggregate(n=Sum("chunk_count"))["n"] or 0)


def progress_of(build: IndexBuild) -> Progress:
    """Of the index that is built. A large document's pieces count before it is whole."""
    ready = Document.objects.filter(tenant_id=build.tenant_id, state=DocumentState.READY)
    documents, passages = ready.count(), ready_passages(build.tenant_id)
    if build.target is None:
        return Progress(documents, documents, passages, passages, None, None)
    missing = missing_documents(build.target)
    left = int(missing.aggregate(n=Sum("chunk_count"))["n"] or 0)
    documents_done = documents - missing.count()
    if build.state in (IndexBuild.State.BUILDING, IndexBuild.State.PAUSED) and left:
        left = min(left, max(1, passages - build.chunks_done))
    rate = build.chunks_done / build.embed_s if build.embed_s else None
    return Progress(
        documents=documents,
        documents_done=documents_done,
        passages=passages,
        passages_done=passages - left,
        passages_per_s=rate,
        seconds_left=_seconds(left, rate, build),
        cut_anew=_cut_anew(build),
    )


def _cut_anew(build: IndexBuild) -> int | None:
    if not (build.source and build.target) or build.source.generation == build.target.generation:
        return None
    marks = IndexedDocument.objects.filter(tenant_id=build.tenant_id, index=build.target)
    return int(marks.aggregate(n=Sum("chunk_count"))["n"] or 0)


def _seconds(left: int, rate: float | None, build: IndexBuild) -> float | None:
    rates = [each for each in (rate, build.passages_per_s) if each]
    return left / min(rates) if rates else None


def live_build(tenant_id: uuid.UUID) -> IndexBuild | None:
    """The tenant's build that is not over yet."""
    over = (IndexBuild.State.DONE, IndexBuild.State.CANCELLED)
    builds = IndexBuild.objects.filter(tenant_id=tenant_id).exclude(state__in=over)
    return builds.select_related("source__embedder", "target__embedder").first()


def get_build(tenant_id: uuid.UUID, build_id: uuid.UUID) -> IndexBuild | None:
    """One of the tenant's builds."""
    return IndexBuild.objects.filter(tenant_id=tenant_id, id=build_id).first()


def past_builds(tenant_id: uuid.UUID, *, limit: int) -> list[IndexBuild]:
    """Those that are over, newest first."""
    over = (IndexBuild.State.DONE, IndexBuild.State.CANCELLED)
    builds = IndexBuild.objects.filter(tenant_id=tenant_id, state__in=over)
    return list(builds.select_related("started_by", "switched_by").order_by("-created_at")[:limit])


def overrides_of(tenant_id: uuid.UUID, build_id: uuid.UUID) -> list[SwitchOverride]:
    """The reasons that were given for going through a gate, newest first."""
    given = SwitchOverride.objects.filter(tenant_id=tenant_id, build_id=build_id)
    return list(given.select_related("by").order_by("-at"))


def models_on_offer() -> list[EmbeddingModel]:
    """The site's embedding models besides the settings' own."""
    return list(EmbeddingModel.objects.order_by("label"))
