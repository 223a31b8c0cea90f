"""What the services share."""

from __future__ import annotations

import uuid

from apps.documents.models import Collection, Document
from apps.telemetry.services import record_audit
from apps.tenants.models import User


def lock(collection_id: uuid.UUID) -> None:
    """Collection before documents: the order in which indexing takes them, so no deadlock."""
    bool(Collection.objects.select_for_update(no_key=True).filter(id=collection_id))


def audit(action: str, subject: Collection | Document, actor: User | None) -> None:
    record_audit(
        action=action,
        tenant_id=subject.tenant_id,
        actor_id=actor.id if actor else None,
        subject_id=subject.id,
    )
