"""What is read of collections and documents. Call inside the tenant's scope."""

from __future__ import annotations

import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Collection as Ids
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.files import File
from django.db.models import Count, F, Func, Q, QuerySet, Sum, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from apps.documents import files
from apps.documents.jobs import UNFINISHED
from apps.documents.models import (
    Batch,
    Chunk,
    Collection,
    CollectionReader,
    CollectionVersion,
    Document,
    DocumentState,
    Page,
    Source,
    SourceRun,
)
from apps.documents.watching import INTERVALS
from apps.tenants.access import Access, Right


@dataclass(frozen=True)
class Counts:
    """Documents of a collection, by where they stand."""

    total: int = 0
    ready: int = 0
    failed: int = 0

    @property
    def unfinished(self) -> int:
        return self.total - self.ready - self.failed


def collections_for(access: Access) -> QuerySet[Collection]:
    """The collections this person may use, by name: all of them for who manages the corpus."""
    every = Collection.objects.filter(tenant_id=access.tenant.id).order_by("name")
    if access.may(Right.MANAGE_CORPUS):
        return every
    named = CollectionReader.objects.filter(tenant_id=access.tenant.id, user_id=access.user.id)
    return every.filter(Q(open_to_all=True) | Q(id__in=named.values("collection_id")))


def collections_with_counts(access: Access) -> list[Collection]:
    """`collections_for`, each with its Counts as `counts`."""
    collections = list(collections_for(access))
    counts = counts_of(access.tenant.id, [each.id for each in collections])
    for each in collections:
        each.counts = counts[each.id]  # type: ignore[attr-defined]
    return collections


def counts_of(tenant_id: uuid.UUID, collection_ids: Ids[uuid.UUID]) -> dict[uuid.UUID, Counts]:
    """Counts per collection; an empty one has zeros.

    A document whose next version is on its way counts as ready and as unfinished.
    """
    rows = (
        Document.objects.filter(tenant_id=tenant_id, collection_id__in=collection_ids)
        .exclude(state=DocumentState.SUPERSEDED)
        .values_list("collection_id")
        .annotate(
            total=Count("id"),
            ready=Count("id", filter=Q(state=DocumentState.READY)),
            failed=Count("id", filter=Q(state=DocumentState.FAILED)),
        )
    )
    counted = {row[0]: Counts(row[1], row[2], row[3]) for row in rows}
    return {each: counted.get(each, Counts()) for each in collection_ids}


def get_collection_for(access: Access, collection_id: uuid.UUID) -> Collection | None:
    """The collection, if it is open to this person."""
    return collections_for(access).filter(id=collection_id).first()


def collection_versions(
    tenant_id: uuid.UUID, collection_ids: Ids[uuid.UUID]
) -> dict[uuid.UUID, int]:
    """A number per collection that rises with any change to what may be found in it.

    What was derived of a collection's documents holds while its number is the same; read it
    before the documents. 0 where nothing has been ready yet.
    """
    rows = CollectionVersion.objects.filter(tenant_id=tenant_id, collection_id__in=collection_ids)
    sums = dict(rows.values_list("collection_id").annotate(Sum("raised")))
    return {each: int(sums.get(each, 0)) for each in collection_ids}


def reader_ids_of(tenant_id: uuid.UUID, collection_id: uuid.UUID) -> list[int]:
    """Users named as readers of a collection."""
    readers = CollectionReader.objects.filter(tenant_id=tenant_id, collection_id=collection_id)
    return list(readers.order_by("user_id").values_list("user_id", flat=True))


@dataclass(frozen=True)
class Wanted:
    """Which documents of a collection to list; empty: all."""

    state: str = ""  # "ready", "failed", "unfinished"
    name: str = ""  # a part of the path
    reason: str = ""  # the code of a failure

    def __bool__(self) -> bool:
        return bool(self.state or self.name or self.reason)


def documents_of(
    tenant_id: uuid.UUID, collection_id: uuid.UUID, wanted: Wanted = Wanted()
) -> QuerySet[Document]:
    """A collection's documents, newest first: of each path its newest version."""
    documents = Document.objects.filter(tenant_id=tenant_id, collection_id=collection_id).exclude(
        state=DocumentState.SUPERSEDED
    )
    # Ranked once, all of them: looking for a newer version row by row took a minute for 10,000
    # documents that the planner did not know of yet.
    ranked = documents.annotate(
        rank=Window(RowNumber(), partition_by=F("path"), order_by=F("version").desc())
    )
    older = ranked.filter(rank__gt=1).values("id")
    return documents.filter(_matches(wanted)).exclude(id__in=older).order_by("-created_at", "id")


def answering_versions(documents: Ids[Document]) -> dict[uuid.UUID, int]:
    """Of documents of one collection: which older version answers until they are ready."""
    waiting = {each.path: each for each in documents if each.version > 1 and not each.ready_at}
    if not waiting:
        return {}
    first = next(iter(waiting.values()))
    ready = Document.objects.filter(
        tenant_id=first.tenant_id,
        collection_id=first.collection_id,
        path__in=waiting,
        state=DocumentState.READY,
    )
    return {waiting[each.path].id: each.version for each in ready.only("path", "version")}


def _matches(wanted: Wanted) -> Q:
    condition = Q()
    if wanted.state in (DocumentState.READY, DocumentState.FAILED):
        condition &= Q(state=wanted.state)
    elif wanted.state == "unfinished":
        condition &= Q(state__in=UNFINISHED)
    if wanted.name:
        condition &= Q(path__icontains=wanted.name.replace("\0", ""))
    if wanted.reason:
        condition &= Q(state=DocumentState.FAILED, error_code=wanted.reason)
    return condition


def get_batch(tenant_id: uuid.UUID, collection_id: uuid.UUID, batch_id: uuid.UUID) -> Batch | None:
    """A batch of the collection."""
    return Batch.objects.filter(
        tenant_id=tenant_id, collection_id=collection_id, id=batch_id
    ).first()


def versions_of(document: Document) -> QuerySet[Document]:
    """All versions of a document's path, newest first; itself among them."""
    return Document.objects.filter(
        tenant_id=document.tenant_id, collection_id=document.collection_id, path=document.path
    ).order_by("-version")


def get_document_for(access: Access, document_id: uuid.UUID) -> Document | None:
    """The document with its collection, if that is open to this person."""
    return (
        Document.objects.filter(
            tenant_id=access.tenant.id,
            id=document_id,
            collection__in=collections_for(access).order_by(),
        )
        .select_related("collection")
        .first()
    )


def kinds_in(tenant_id: uuid.UUID, collection_ids: Ids[uuid.UUID]) -> list[str]:
    """MIME types of the collections' documents that can be searched, the commonest first."""
    rows = searchable_documents(tenant_id, collection_ids).exclude(kind="").values_list("kind")
    return [row[0] for row in rows.annotate(count=Count("id")).order_by("-count", "kind")]


def tags_in(tenant_id: uuid.UUID, collection_ids: Ids[uuid.UUID]) -> list[str]:
    """Tags of the collections' documents that can be searched, in alphabetical order."""
    rows = searchable_documents(tenant_id, collection_ids).exclude(tags=[])
    names = rows.annotate(tag=Func(F("tags"), function="unnest")).values_list("tag", flat=True)
    return sorted(set(names.distinct()))


def searchable_documents(
    tenant_id: uuid.UUID, collection_ids: Ids[uuid.UUID]
) -> QuerySet[Document]:
    """The collections' ready documents."""
    return Document.objects.filter(
        tenant_id=tenant_id, collection_id__in=collection_ids, state=DocumentState.READY
    )


def existing_document_ids(tenant_id: uuid.UUID, document_ids: Ids[uuid.UUID]) -> set[uuid.UUID]:
    """Those of `document_ids` that still exist."""
    found = Document.objects.filter(tenant_id=tenant_id, id__in=document_ids)
    return set(found.values_list("id", flat=True))


def chunks_of(document: Document) -> QuerySet[Chunk]:
    """A document's chunks in reading order: those that are shown and searched."""
    return Chunk.objects.filter(
        tenant_id=document.tenant_id, document_id=document.id, generation=document.generation
    ).order_by("ordinal")


def chunks_between(document: Document, first: int, last: int) -> list[Chunk]:
    """The chunks that have text on pages `first` to `last`, in reading order.

    Pages are in no index, but they rise with the ordinal: a few look-ups find both ends.
    """
    chunks = chunks_of(document)

    def page_of(ordinal: int, end: str) -> int:
        found = chunks.filter(ordinal=ordinal).values_list(end, flat=True).first()
        return document.page_count if found is None else int(found)

    ordinals = range(document.chunk_count)
    start = bisect_left(ordinals, first, key=lambda each: page_of(each, "page_last"))
    stop = bisect_right(ordinals, last, key=lambda each: page_of(each, "page_first"))
    return list(chunks.filter(ordinal__gte=start, ordinal__lt=stop))


def get_chunk(document: Document, chunk_id: uuid.UUID) -> Chunk | None:
    """One chunk of the document."""
    return chunks_of(document).filter(id=chunk_id).first()


def pages_of(tenant_id: uuid.UUID, document_id: uuid.UUID) -> QuerySet[Page]:
    """A document's pages in order."""
    return Page.objects.filter(tenant_id=tenant_id, document_id=document_id).order_by("number")


def pages_between(
    tenant_id: uuid.UUID, document_id: uuid.UUID, first: int, last: int
) -> QuerySet[Page]:
    """Pages `first` to `last`, both included."""
    return pages_of(tenant_id, document_id).filter(number__gte=first, number__lte=last)


def open_file(document: Document) -> File[Any]:
    """The document's bytes as they were uploaded, open for reading. Raises FileMissing."""
    return files.open_stored(document.storage_key)


@dataclass(frozen=True)
class WatchedSource:
    """A source, when it is next looked at, and whether somebody is at it."""

    source: Source
    due_at: datetime | None
    is_under_way: bool

    @property
    def is_waiting(self) -> bool:
        """Due, and not yet taken by a worker."""
        due = self.due_at is not None and self.due_at <= timezone.now()
        return due and not self.is_under_way

    @property
    def every(self) -> str:
        return INTERVALS.get(self.source.every_minutes, f"every {self.source.every_minutes} min")


def sources_of(tenant_id: uuid.UUID, collection_id: uuid.UUID) -> list[WatchedSource]:
    """The watched folders of a collection, oldest first."""
    found = list(
        Source.objects.filter(tenant_id=tenant_id, collection_id=collection_id).order_by(
            "created_at", "id"
        )
    )
    runs = SourceRun.objects.filter(tenant_id=tenant_id, source_id__in=[each.id for each in found])
    by_source = {run.source_id: run for run in runs}
    return [_watched(source, by_source.get(source.id)) for source in found]


def _watched(source: Source, run: SourceRun | None) -> WatchedSource:
    due_at = run.due_at if run else None
    held_until = run.lease_expires_at if run else None
    is_held = held_until is not None and held_until > timezone.now()
    return WatchedSource(source, due_at, is_held)


def get_source(
    tenant_id: uuid.UUID, collection_id: uuid.UUID, source_id: uuid.UUID
) -> Source | None:
    """The source, where that collection has it."""
    return Source.objects.filter(
        tenant_id=tenant_id, collection_id=collection_id, id=source_id
    ).first()
