"""Putting an index in force instead of another: one transaction, and back the same way."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.conf import settings
from django.db import connection
from django.utils import timezone

from apps.documents.models import Chunking, Collection
from apps.retrieval.builds import errors, gates
from apps.retrieval.builds.starting import TEND_TASK
from apps.retrieval.models import EmbeddingIndex, IndexBuild, SwitchOverride
from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from worker.enqueue import wake

State = IndexBuild.State
REASON_MAX_CHARS = 500
# What of a document is shown follows the index in force. One that was not cut that way yet keeps
# its old passages until it is.
_SHOW_GENERATION = """
    UPDATE documents_document AS document
    SET generation = %(generation)s, chunk_count = mark.chunk_count
    FROM retrieval_indexeddocument AS mark
    WHERE document.tenant_id = %(tenant)s AND document.state = 'ready'
        AND mark.tenant_id = document.tenant_id AND mark.document_id = document.id
        AND mark.index_id = %(index)s AND document.generation <> %(generation)s
"""


def switch(
    *, tenant: Tenant, user: User | None, build_id: uuid.UUID, reason: str = ""
) -> IndexBuild:
    """Search the new index from now on; the old one is kept in step for INDEX_KEEP_DAYS.

    Raises NotNow, and GateRefused where a gate was not passed and no `reason` says why it is done
    all the same; the reason is kept.
    """
    with tenant_scope(tenant.id):
        build = _hold(tenant, build_id, State.READY, State.BACK)
        refused = gates.refused(build)
        if refused and not reason.strip():
            raise errors.GateRefused({name: gates.title_of(name) for name in refused})
        if refused:
            SwitchOverride.objects.create(
                tenant=tenant, build=build, reason=reason.strip()[:REASON_MAX_CHARS], by=user
            )
        _put_in_force(build.target, instead_of=build.source)
        _change(build, State.SWITCHED, user, "index.switch_forced" if refused else "index.switched")
    return build


def switch_back(*, tenant: Tenant, user: User | None, build_id: uuid.UUID) -> IndexBuild:
    """Search the old index again, which was kept in step; the new one is kept for a while, too.

    No gate: it was in force before. Raises NotNow.
    """
    with tenant_scope(tenant.id):
        build = _hold(tenant, build_id, State.SWITCHED)
        _put_in_force(build.source, instead_of=build.target)
        _change(build, State.BACK, user, "index.switched_back")
    return build


def _hold(tenant: Tenant, build_id: uuid.UUID, *states: str) -> IndexBuild:
    """The build in one of the states, with all collections locked: no document becomes ready.

    Collections first and in order, as whoever makes documents ready takes them.
    """
    collections = Collection.objects.select_for_update(no_key=True).filter(tenant=tenant)
    bool(collections.order_by("id"))
    build = (
        IndexBuild.objects.select_for_update(of=("self",))
        .select_related("source", "target")
        .filter(tenant=tenant, id=build_id, state__in=states)
        .first()
    )
    if build is None:
        raise errors.NotNow
    return build


def _put_in_force(index: EmbeddingIndex | None, *, instead_of: EmbeddingIndex | None) -> None:
    if index is None or instead_of is None:
        raise errors.NotNow
    indexes = EmbeddingIndex.objects.filter(tenant_id=index.tenant_id)
    # One after the other: the unique key allows one active index at any moment.
    if not indexes.filter(id=instead_of.id, active=True).update(active=False):
        raise errors.NotNow
    indexes.filter(id=index.id).update(active=True)
    if index.generation != instead_of.generation:
        _cut_like(index)


def _cut_like(index: EmbeddingIndex) -> None:
    """New documents are cut like the index's passages, and its passages are the ones shown."""
    chunkings = Chunking.objects.filter(tenant_id=index.tenant_id)
    chunkings.filter(in_force=True).update(in_force=False)
    # Without a row: as the settings say.
    chunkings.filter(generation=index.generation).update(in_force=True)
    with connection.cursor() as cursor:
        cursor.execute(
            _SHOW_GENERATION,
            {"tenant": index.tenant_id, "index": index.id, "generation": index.generation},
        )


def _change(build: IndexBuild, state: str, user: User | None, action: str) -> None:
    build.state = state
    build.switched_by = user
    build.switched_at = timezone.now()
    build.keep_until = build.switched_at + timedelta(days=settings.INDEX_KEEP_DAYS)
    build.lease_expires_at = None  # what is missing in either is added at once
    build.save(
        update_fields=["state", "switched_by", "switched_at", "keep_until", "lease_expires_at"]
    )
    record_audit(
        action=action,
        tenant_id=build.tenant_id,
        actor_id=user.id if user else None,
        subject_id=build.id,
    )
    wake(TEND_TASK)
