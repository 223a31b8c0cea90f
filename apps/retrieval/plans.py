"""How one tenant's vectors are searched: exactly while they are few, by an HNSW index above.

The plan is decided here and not by PostgreSQL. An HNSW index carries a mark in its predicate
(`apps.retrieval.ann`): a statement without the mark cannot be answered by it, one with the mark is
answered by it and by no other.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from django.conf import settings
from django.db.models import Q, Sum

from apps.retrieval.filters import Narrowed
from apps.retrieval.models import AnnIndex, CollectionStatistics, EmbeddingIndex
from apps.retrieval.options import SearchOptions, Storage

EF_SEARCH_MAX = 1000  # pgvector's
# A search of a part of what an HNSW index is over finds the part's rows one in many: exact
# search, whose time grows with the part alone, stays ahead to this multiple of the line.
NARROWED_TIMES = 5
EVERYTHING = Narrowed()


@dataclass(frozen=True)
class SearchPlan:
    """How one search's vectors are searched, and why."""

    kind: Literal["exact", "hnsw"]
    reason: str  # words of ours, for the span
    rows: int  # chunks that the search could return
    ef_search: int | None = None  # None: exact
    storage: Storage = "halfvec"
    ann_id: int | None = None  # the AnnIndex that answers

    @property
    def exactly(self) -> SearchPlan:
        """The same search, done exactly."""
        return SearchPlan("exact", "too few rows found", self.rows)


def plan_search(
    *,
    index: EmbeddingIndex,
    options: SearchOptions,
    collection_ids: Sequence[uuid.UUID],
    narrowed: Narrowed = EVERYTHING,
) -> SearchPlan:
    """The plan for one search of `index`: one query for a small tenant, two for a large one."""
    chosen, whole = _chunk_counts(index, collection_ids)
    rows = chosen if narrowed.chunk_count is None else min(chosen, narrowed.chunk_count)
    line = settings.HNSW_ABOVE_CHUNKS
    if options.exact:
        return SearchPlan("exact", "asked for", rows)
    if rows <= line:
        return SearchPlan("exact", "few chunks", rows)
    if rows < whole and rows <= NARROWED_TIMES * line:
        return SearchPlan("exact", "a small part of the chunks", rows)
    ann, reason = _ready_index(index, options)
    if ann is None:
        return SearchPlan("exact", reason, rows)
    return hnsw_plan(ann, options, rows=rows, reason=reason)


def hnsw_plan(
    ann: AnnIndex, options: SearchOptions, *, rows: int, reason: str = "asked for"
) -> SearchPlan:
    """A plan that is answered by `ann`. ef_search is never below the candidates wanted."""
    return SearchPlan(
        "hnsw",
        reason,
        rows,
        ef_search=min(EF_SEARCH_MAX, max(options.ef_search, options.leg_candidates)),
        storage="bit" if ann.storage == "bit" else "halfvec",
        ann_id=ann.id,
    )


def _chunk_counts(index: EmbeddingIndex, collection_ids: Sequence[uuid.UUID]) -> tuple[int, int]:
    """Searchable chunks of the collections, and of the whole tenant: a row a collection."""
    counted = CollectionStatistics.objects.filter(
        tenant_id=index.tenant_id, generation=index.generation
    ).aggregate(
        chosen=Sum("chunk_count", filter=Q(collection_id__in=list(collection_ids)), default=0),
        whole=Sum("chunk_count", default=0),
    )
    return int(counted["chosen"]), int(counted["whole"])


def _ready_index(index: EmbeddingIndex, options: SearchOptions) -> tuple[AnnIndex | None, str]:
    """The HNSW index the options name; any other that is ready; with the reason."""
    ready = list(
        AnnIndex.objects.filter(
            tenant_id=index.tenant_id, index_id=index.id, state=AnnIndex.State.READY
        ).order_by("-storage", "-id")
    )
    wanted = (options.storage, options.m, options.ef_construction)
    for ann in ready:
        if (ann.storage, ann.m, ann.ef_construction) == wanted:
            return ann, "many chunks"
    if ready:
        return ready[0], "many chunks; the index asked for is not ready, another is"
    return None, "many chunks, but no HNSW index is ready yet"
