"""Of a path's versions one is ready; those before it are superseded."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial

from django.db.models import Exists, OuterRef, QuerySet

from apps.documents import jobs
from apps.documents.checking.repairs import locked
from apps.documents.checking.types import Finding, Options, snapshot
from apps.documents.models import Document, DocumentState


def older_versions_that_answer(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Versions that are not superseded although a newer one is ready."""
    with snapshot(tenant_id):
        found = list(_overtaken(tenant_id).order_by("id").values_list("id", flat=True))
    for document_id in found:
        yield Finding(
            "old_version",
            str(document_id),
            "A newer version of this document is ready, and this one is not superseded.",
            tenant_id,
            partial(_supersede, tenant_id, document_id),
        )


def _supersede(tenant_id: uuid.UUID, document_id: uuid.UUID) -> bool:
    """Its search rows are found, and removed, by the check of those."""
    with locked(tenant_id, document_id) as document:
        if document is not None:
            jobs.supersede(_overtaken(tenant_id).filter(id=document_id))
    return True


def _overtaken(tenant_id: uuid.UUID) -> QuerySet[Document]:
    newer = Document.objects.filter(
        tenant_id=tenant_id,
        collection_id=OuterRef("collection_id"),
        path=OuterRef("path"),
        version__gt=OuterRef("version"),
        state=DocumentState.READY,
    )
    rows = Document.objects.filter(Exists(newer), tenant_id=tenant_id)
    return rows.exclude(state=DocumentState.SUPERSEDED)
