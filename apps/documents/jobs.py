"""A document as a job: its state, its lease, its attempts. Every change is compare-and-set.

received → parsing → chunking → indexing → ready, or failed from anywhere. Whoever holds an
unexpired lease owns the row; a worker that died lets it run out, and the sweeper sends the
document again.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from apps.documents.models import Document, DocumentState
from apps.tenants.scope import tenant_scope

# Renewed while the work goes on: what a dead worker held is free again within this time.
LEASE_S = 120
ATTEMPTS_MAX = 3
UNFINISHED = (
    DocumentState.RECEIVED,
    DocumentState.PARSING,
    DocumentState.CHUNKING,
    DocumentState.INDEXING,
)
_MESSAGE_MAX_CHARS = 500


def claim(
    *,
    tenant_id: uuid.UUID,
    document_id: uuid.UUID,
    from_states: tuple[str, ...],
    to_state: str,
    lease_s: int = LEASE_S,
) -> Document | None:
    """Take the document for `lease_s`, if it is in one of `from_states` and nobody holds it.

    None when someone else has it, it is gone, or it is somewhere else. A document that was
    claimed ATTEMPTS_MAX times in this stage without getting further is failed instead: it kills
    its workers.
    """
    now = timezone.now()
    with tenant_scope(tenant_id):
        free = _rows(tenant_id, document_id, from_states).filter(_is_free(now))
        taken = free.filter(attempt__lt=ATTEMPTS_MAX).update(
            state=to_state,
            attempt=F("attempt") + 1,
            lease_expires_at=now + timedelta(seconds=lease_s),
            progress_done=0,
            progress_total=0,
            error_code="",
            error_message="",
            updated_at=now,
        )
        if taken:
            return Document.objects.get(tenant_id=tenant_id, id=document_id)
        free.filter(attempt__gte=ATTEMPTS_MAX).update(
            **_failed(
                "kept_crashing",
                f"Processing kept crashing and was given up after {ATTEMPTS_MAX} attempts. "
                "Save the file again in its program, or export it as PDF, and upload that.",
                now,
            )
        )
    return None


def advance(
    *, tenant_id: uuid.UUID, document_id: uuid.UUID, from_state: str, to_state: str
) -> bool:
    """Move on to the next stage of the same job, lease kept; False when it is not ours any more."""
    with tenant_scope(tenant_id):
        moved = _rows(tenant_id, document_id, (from_state,)).update(
            state=to_state, updated_at=timezone.now()
        )
    return moved == 1


def renew_lease(
    *, tenant_id: uuid.UUID, document_id: uuid.UUID, attempt: int, lease_s: int
) -> bool:
    """Hold the document on; False when it is gone, or another attempt took it over."""
    with tenant_scope(tenant_id):
        held = _rows(tenant_id, document_id, UNFINISHED).filter(attempt=attempt)
        expires = timezone.now() + timedelta(seconds=lease_s)
        return held.update(lease_expires_at=expires) == 1


def report_progress(*, tenant_id: uuid.UUID, document_id: uuid.UUID, done: int, total: int) -> None:
    """Say how far the current stage is; renews the lease. The caller throttles."""
    now = timezone.now()
    with tenant_scope(tenant_id):
        _rows(tenant_id, document_id, UNFINISHED).update(
            progress_done=done,
            progress_total=total,
            lease_expires_at=now + timedelta(seconds=LEASE_S),
            updated_at=now,
        )


def mark_ready(*, tenant_id: uuid.UUID, document_id: uuid.UUID) -> None:
    """The document is findable. Does nothing unless it is being indexed."""
    now = timezone.now()
    with tenant_scope(tenant_id):
        _rows(tenant_id, document_id, (DocumentState.INDEXING,)).update(
            state=DocumentState.READY,
            lease_expires_at=None,
            attempt=0,
            progress_done=0,
            progress_total=0,
            error_code="",
            error_message="",
            ready_at=now,
            updated_at=now,
        )


def mark_failed(*, tenant_id: uuid.UUID, document_id: uuid.UUID, code: str, message: str) -> None:
    """The document cannot be ingested; `message` tells a person why and what to do."""
    with tenant_scope(tenant_id):
        _rows(tenant_id, document_id, UNFINISHED).update(**_failed(code, message, timezone.now()))


def _rows(
    tenant_id: uuid.UUID, document_id: uuid.UUID, states: Sequence[str]
) -> QuerySet[Document]:
    return Document.objects.filter(tenant_id=tenant_id, id=document_id, state__in=states)


def _is_free(now: datetime) -> Q:
    return Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now)


def _failed(code: str, message: str, now: datetime) -> dict[str, object]:
    return {
        "state": DocumentState.FAILED,
        "error_code": code[:60],
        "error_message": message[:_MESSAGE_MAX_CHARS],
        "lease_expires_at": None,
        "progress_done": 0,
        "progress_total": 0,
        "updated_at": now,
    }
