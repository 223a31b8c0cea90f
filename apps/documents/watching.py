"""Watched folders and prefixes: adding, pausing and removing them, and whose turn it is.

The clock asks each minute for the source that has been due for longest. Whoever takes it holds it
while the lease lasts, and proves it by the fence; one source is synchronised at a time, so that
watching never takes more than one of the worker's places.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from apps.documents.errors import SourceTaken
from apps.documents.models import Collection, Source, SourceRun
from apps.documents.sources import normalize
from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from worker.enqueue import wake

TASK = "documents.sync_sources"
# Minutes between two runs, and in words.
INTERVALS = {
    5: "every 5 minutes",
    15: "every 15 minutes",
    60: "every hour",
    360: "every 6 hours",
    1440: "once a day",
}
_TAKE = """
    UPDATE documents_sourcerun SET fence = fence + 1,
        lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s)
    WHERE id = (
        SELECT id FROM documents_sourcerun
        WHERE due_at <= statement_timestamp() AND NOT EXISTS (
            SELECT FROM documents_sourcerun WHERE lease_expires_at > statement_timestamp())
        ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING tenant_id, source_id, fence
"""
_LEAVE = """
    UPDATE documents_sourcerun SET lease_expires_at = NULL,
        due_at = CASE WHEN due_at IS NOT NULL
            THEN statement_timestamp() + make_interval(mins => %(minutes)s) END
    WHERE tenant_id = %(tenant)s AND source_id = %(source)s AND fence = %(fence)s
"""


@dataclass(frozen=True)
class Turn:
    """A source that was taken, and the proof that it is still held."""

    tenant_id: uuid.UUID
    source_id: uuid.UUID
    fence: int


def add_source(
    *,
    tenant: Tenant,
    collection: Collection,
    user: User | None,
    kind: str,
    location: str,
    every_minutes: int,
) -> Source:
    """Keep a collection in step with a place, from now on.

    Raises SourceNotAllowed and SourceTaken. Whether the place is there is told by the first run.
    """
    source = Source(
        tenant=tenant,
        collection=collection,
        kind=Source.Kind(kind),
        location=normalize(kind, location, tenant_slug=tenant.slug),
        every_minutes=every_minutes,
        created_by=user,
    )
    with tenant_scope(tenant.id):
        try:
            with transaction.atomic():
                source.save(force_insert=True)
        except IntegrityError as exc:
            raise SourceTaken("The collection is kept in step with this place already.") from exc
        SourceRun.objects.create(tenant=tenant, source=source, due_at=Now())
        _audit("source.added", source, user)
        wake(TASK)
    return source


def pause_source(*, tenant: Tenant, source: Source, actor: User | None) -> None:
    """Leave the collection as it is until it is resumed."""
    with tenant_scope(tenant.id):
        _sources(source).update(enabled=False)
        _runs(source).update(due_at=None)
        _audit("source.paused", source, actor)


def resume_source(*, tenant: Tenant, source: Source, actor: User | None) -> None:
    """Go on, at once."""
    with tenant_scope(tenant.id):
        _sources(source).update(enabled=True)
        _audit("source.resumed", source, actor)
        _make_due(source)


def run_source_now(*, tenant: Tenant, source: Source) -> None:
    """Look again without waiting for the clock; nothing where the source is paused."""
    with tenant_scope(tenant.id):
        if _sources(source).filter(enabled=True).exists():
            _make_due(source)


def allow_removals(*, tenant: Tenant, source: Source, actor: User | None, count: int) -> None:
    """A person has seen that `count` documents would go, and wants it."""
    with tenant_scope(tenant.id):
        _sources(source).update(removals_allowed=max(0, count))
        _audit("source.removals_allowed", source, actor)
        _make_due(source)


def remove_source(
    *, tenant: Tenant, source: Source, actor: User | None, keep_documents: bool
) -> None:
    """Watch no longer. Documents that it brought stay, or are deleted by the worker."""
    with tenant_scope(tenant.id):
        _audit("source.removed", source, actor)
        if keep_documents:
            _sources(source).delete()
            return
        _sources(source).update(enabled=False, removing=True)
        _make_due(source)


def take() -> Turn | None:
    """The source that has been due for longest; None where none is, or another is under way."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, {"lease_s": settings.JOB_LEASE_S})
        row = cursor.fetchone()
    return Turn(*row) if row else None


def renew(turn: Turn) -> bool:
    """Hold the source on; False when it is gone, or another has taken it over."""
    held = SourceRun.objects.filter(
        tenant_id=turn.tenant_id, source_id=turn.source_id, fence=turn.fence
    )
    expires = timezone.now() + timedelta(seconds=settings.JOB_LEASE_S)
    return held.update(lease_expires_at=expires) == 1


def leave(turn: Turn, *, due_in_minutes: int) -> None:
    """Let the source go until it is due again; one that is paused stays so. 0: others are next."""
    values: dict[str, Any] = {
        "tenant": turn.tenant_id,
        "source": turn.source_id,
        "fence": turn.fence,
        "minutes": due_in_minutes,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LEAVE, values)


def wake_if_due() -> None:
    """Have the next source taken, where one is due now."""
    if SourceRun.objects.filter(due_at__lte=Now()).exists():
        wake(TASK)


def _make_due(source: Source) -> None:
    _runs(source).update(due_at=Now())
    wake(TASK)


def _sources(source: Source) -> QuerySet[Source]:
    return Source.objects.filter(tenant_id=source.tenant_id, id=source.id, removing=False)


def _runs(source: Source) -> QuerySet[SourceRun]:
    return SourceRun.objects.filter(tenant_id=source.tenant_id, source_id=source.id)


def _audit(action: str, source: Source, actor: User | None) -> None:
    record_audit(
        action=action,
        tenant_id=source.tenant_id,
        actor_id=actor.id if actor else None,
        subject_id=source.id,
    )
