"""What several checks repair with. Each is one transaction, and looks again before it writes.

Locks are taken in the order collection, document, job, as everywhere (see `apps.documents.jobs`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.utils import timezone

from apps.documents import jobs
from apps.documents.models import Chunk, Collection, Document, DocumentState, Job, Page, Stage
from apps.tenants.scope import tenant_scope

Still = Callable[[Document], bool]


@contextmanager
def locked(tenant_id: uuid.UUID, document_id: uuid.UUID) -> Iterator[Document | None]:
    """The document, held with its collection until the end of the block; None where it is gone."""
    with tenant_scope(tenant_id):
        rows = Document.objects.filter(tenant_id=tenant_id, id=document_id)
        holders = Collection.objects.filter(
            tenant_id=tenant_id, id__in=rows.values_list("collection_id")
        )
        bool(holders.select_for_update(no_key=True))
        yield rows.select_for_update(no_key=True).first()


def index_again(tenant_id: uuid.UUID, document_id: uuid.UUID, still: Still) -> bool:
    """Send a ready document to be indexed anew."""
    return _send(tenant_id, document_id, still, DocumentState.INDEXING, Stage.INDEX)


def read_again(tenant_id: uuid.UUID, document_id: uuid.UUID, still: Still) -> bool:
    """Send a ready document to be parsed, chunked and indexed anew."""
    return _send(tenant_id, document_id, still, DocumentState.RECEIVED, Stage.INGEST)


def _send(
    tenant_id: uuid.UUID, document_id: uuid.UUID, still: Still, state: DocumentState, stage: Stage
) -> bool:
    with locked(tenant_id, document_id) as document:
        if document and document.state == DocumentState.READY and still(document):
            Document.objects.filter(tenant_id=tenant_id, id=document_id).update(
                state=state, updated_at=timezone.now()
            )
            Job.objects.filter(tenant_id=tenant_id, document_id=document_id).delete()
            jobs.submit(document, stage)
    return True


def fail(
    tenant_id: uuid.UUID, document_id: uuid.UUID, still: Still, *, code: str, message: str
) -> bool:
    """Give up an unfinished document; a worker that holds it stops by itself."""
    with locked(tenant_id, document_id) as document:
        if document and document.state in jobs.UNFINISHED and still(document):
            for model in (Job, Chunk, Page):
                model.objects.filter(tenant_id=tenant_id, document_id=document_id).delete()
            Document.objects.filter(tenant_id=tenant_id, id=document_id).update(
                state=DocumentState.FAILED,
                error_code=code,
                error_message=message,
                progress_done=0,
                progress_total=0,
                page_count=0,
                chunk_count=0,
                updated_at=timezone.now(),
            )
    return True
