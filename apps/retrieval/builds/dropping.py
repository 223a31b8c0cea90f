"""Dropping the index that is not in force: vectors, passages, itself. Killed, it goes on."""

from __future__ import annotations

import uuid
from functools import partial

from django.db import connection
from django.utils import timezone

from apps.documents.models import Chunk, Chunking, Collection
from apps.retrieval import slots
from apps.retrieval.builds import leases
from apps.retrieval.builds.leases import BuildClaim
from apps.retrieval.models import (
    ChunkTerms,
    CollectionStatistics,
    EmbeddingIndex,
    IndexBuild,
    IndexedDocument,
    StagedChunk,
    TermFrequency,
)
from apps.tenants.scope import tenant_scope

State = IndexBuild.State
_BATCH = 2000


def drop(claim: BuildClaim, build: IndexBuild) -> None:
    """Drop what the build leaves behind, and end it. Raises Lost and PartitionBusy."""
    renew = partial(leases.renew, claim)
    unused = [
        index for index in (build.source, build.target) if index is not None and not index.active
    ]
    for index in unused:
        if index.slot == slots.SHARED:
            if slots.remove_rows(index, go_on=renew):
                slots.vacuum_shared()
        else:
            renew()
            slots.drop_partition(index.slot)
        _remove_generation(claim, index)
        _remove_index(claim, index)
    target_kept = build.target is not None and build.target.active
    ended = State.DONE if target_kept else State.CANCELLED
    leases.held(claim).update(state=ended, finished_at=timezone.now(), error_code="")


def _remove_generation(claim: BuildClaim, index: EmbeddingIndex) -> None:
    """Passages of a cut that no index is over any more, a batch a transaction.

    Under the lock of their collection, which deletions take before anything else.
    """
    tenant_id, generation = index.tenant_id, index.generation
    others = EmbeddingIndex.objects.filter(tenant_id=tenant_id, generation=generation)
    if others.exclude(id=index.id).exists():
        return
    with tenant_scope(tenant_id):
        collections = list(
            Collection.objects.filter(tenant_id=tenant_id).values_list("id", flat=True)
        )
    for collection_id in collections:
        while _remove_chunks(claim, collection_id, generation):
            pass
    where = {"tenant_id": tenant_id, "generation": generation}
    CollectionStatistics.objects.filter(**where).delete()
    TermFrequency.objects.filter(**where).delete()
    Chunking.objects.filter(**where, in_force=False).delete()


def _remove_chunks(claim: BuildClaim, collection_id: uuid.UUID, generation: int) -> int:
    with tenant_scope(claim.tenant_id):
        held = Collection.objects.select_for_update(no_key=True).filter(
            tenant_id=claim.tenant_id, id=collection_id
        )
        if not held:
            return 0
        leases.renew(claim)
        where = {"tenant_id": claim.tenant_id, "generation": generation}
        # A document that was left out of a switch shows its old passages until it is cut anew.
        ids = list(
            Chunk.objects.filter(**where, document__collection_id=collection_id)
            .exclude(document__generation=generation)
            .values_list("id", flat=True)[:_BATCH]
        )
        ChunkTerms.objects.filter(tenant_id=claim.tenant_id, chunk_id__in=ids).delete()
        # Not through Django, which would look for what hangs on each: the database knows.
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM documents_chunk WHERE tenant_id = %s AND id = ANY(%s)",
                [claim.tenant_id, ids],
            )
    return len(ids)


def _remove_index(claim: BuildClaim, index: EmbeddingIndex) -> None:
    """The last step: what names the index goes with it."""
    owner = {"tenant_id": claim.tenant_id, "index_id": index.id}
    for rows in (StagedChunk.objects, IndexedDocument.objects):
        leases.renew(claim)
        rows.filter(**owner).delete()
    leases.renew(claim)
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM retrieval_embeddingindex WHERE tenant_id = %s AND id = %s AND NOT active",
            [claim.tenant_id, index.id],
        )
