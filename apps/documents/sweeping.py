"""Finding what was lost on the way, and sending it again."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from apps.documents import files
from apps.documents.ingestion import INDEX_TASK
from apps.documents.jobs import UNFINISHED
from apps.documents.models import Document, DocumentState
from apps.documents.services import INGEST_TASK
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from worker.celery import INDEX, INGEST
from worker.enqueue import enqueue, queue_length

logger = logging.getLogger(__name__)

# A message younger than this is on its way rather than lost.
_UNCLAIMED_S = 30
_PER_TENANT = 1000
_ABANDONED_UPLOAD_S = 24 * 60 * 60


def sweep() -> int:
    """Send every document again that nobody works on; returns how many were sent.

    A long queue looks the same as lost messages to a row that waits. So documents are only sent
    again when more of them wait than messages are queued, which happens once per loss and not
    every half minute of a backlog. When the broker cannot be asked, the next sweep will do it.
    """
    files.remove_abandoned(older_than_s=_ABANDONED_UPLOAD_S)
    lost: dict[str, list[tuple[uuid.UUID, uuid.UUID]]] = {INGEST: [], INDEX: []}
    for tenant_id in Tenant.objects.values_list("id", flat=True):
        for document_id, state in _waiting(tenant_id):
            queue = INDEX if state == DocumentState.INDEXING else INGEST
            lost[queue].append((tenant_id, document_id))
    return _send(INGEST, INGEST_TASK, lost[INGEST]) + _send(INDEX, INDEX_TASK, lost[INDEX])


def _waiting(tenant_id: uuid.UUID) -> Iterator[tuple[uuid.UUID, str]]:
    """Unfinished documents of a tenant that nobody holds, oldest first."""
    now = timezone.now()
    unclaimed = Q(
        lease_expires_at__isnull=True, updated_at__lt=now - timedelta(seconds=_UNCLAIMED_S)
    )
    with tenant_scope(tenant_id):
        yield from list(
            Document.objects.filter(tenant_id=tenant_id, state__in=UNFINISHED)
            .filter(unclaimed | Q(lease_expires_at__lt=now))
            .order_by("created_at")
            .values_list("id", "state")[:_PER_TENANT]
        )


def _send(queue: str, task: str, waiting: list[tuple[uuid.UUID, uuid.UUID]]) -> int:
    if not waiting:
        return 0
    queued = queue_length(queue)
    if queued is None or len(waiting) <= queued:
        return 0
    for tenant_id, document_id in waiting:
        enqueue(task, tenant_id=tenant_id, document_id=str(document_id))
    logger.warning("sweep: %d documents sent to %s again", len(waiting), queue)
    return len(waiting)
