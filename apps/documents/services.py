"""What changes collections and documents. Every function here owns its transaction."""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Iterable
from functools import partial
from typing import IO

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.documents import files
from apps.documents.errors import DuplicateDocument, NameTaken, NotRetryable
from apps.documents.models import Collection, CollectionReader, Document, DocumentState
from apps.documents.previews import preview_folder
from apps.telemetry.hops import Trace
from apps.telemetry.services import record_audit, record_trace
from apps.tenants.models import Membership, Tenant, User
from apps.tenants.scope import tenant_scope
from worker.enqueue import enqueue

logger = logging.getLogger(__name__)

INGEST_TASK = "documents.ingest_document"


def create_collection(
    *,
    tenant: Tenant,
    user: User | None,
    name: str,
    description: str = "",
    open_to_all: bool = True,
    reader_ids: Iterable[int] = (),
) -> Collection:
    """Make a collection. `reader_ids` are users; those who are no members are left out.

    Raises NameTaken.
    """
    with tenant_scope(tenant.id):
        collection = Collection(
            tenant=tenant,
            name=name.strip(),
            description=description.strip(),
            open_to_all=open_to_all,
            created_by=user,
        )
        _save_named(collection, force_insert=True)
        _set_readers(collection, reader_ids)
        _audit("collection.created", collection, user)
    return collection


def update_collection(
    *,
    tenant: Tenant,
    collection: Collection,
    actor: User | None,
    name: str,
    description: str,
    open_to_all: bool,
    reader_ids: Iterable[int],
) -> Collection:
    """Change a collection's name, description and readers. Raises NameTaken."""
    with tenant_scope(tenant.id):
        collection.name = name.strip()
        collection.description = description.strip()
        collection.open_to_all = open_to_all
        _save_named(collection, update_fields=["name", "description", "open_to_all"])
        _set_readers(collection, reader_ids)
        _audit("collection.changed", collection, actor)
    return collection


def delete_collection(*, tenant: Tenant, collection: Collection, actor: User | None) -> None:
    """Delete a collection with all its documents: rows, vectors, files and page images.

    The database removes what hangs on the row; files go after the commit.
    """
    with tenant_scope(tenant.id):
        documents = Document.objects.filter(tenant=tenant, collection=collection)
        for document_id, key in documents.values_list("id", "storage_key"):
            transaction.on_commit(partial(_remove_files, tenant.id, document_id, key))
        _audit("collection.deleted", collection, actor)
        Collection.objects.filter(tenant=tenant, id=collection.id).delete()


def receive_upload(
    *,
    tenant: Tenant,
    collection: Collection,
    user: User | None,
    name: str,
    file: files.Chunked | IO[bytes],
) -> Document:
    """Store one file and send it on its way.

    The document counts once its bytes are on disk and its row is committed; until then nothing is
    left of it. Raises FileTooLarge, EmptyFile, or DuplicateDocument, which carries the document
    that has the same bytes.
    """
    trace = Trace(tenant.id, "ingestion")
    with trace.hop("receive") as hop, files.receive(file) as received, tenant_scope(tenant.id):
        hop.set(bytes=received.size_bytes)
        _refuse_duplicate(tenant, collection, received.sha256)
        document = Document(
            tenant=tenant,
            collection=collection,
            name=files.clean_name(name),
            size_bytes=received.size_bytes,
            sha256=received.sha256,
            uploaded_by=user,
        )
        trace.trace_id = document.id
        document.storage_key = files.store(
            received, files.storage_key(tenant.id, document.id, received.sha256)
        )
        _insert(document)
        _audit("document.uploaded", document, user)
        enqueue(INGEST_TASK, tenant_id=tenant.id, document_id=str(document.id))
    record_trace(trace)
    return document


def retry_document(*, tenant: Tenant, document: Document, actor: User | None) -> None:
    """Send a failed document on its way again. Raises NotRetryable when it has not failed."""
    with tenant_scope(tenant.id):
        reset = Document.objects.filter(
            tenant=tenant, id=document.id, state=DocumentState.FAILED
        ).update(
            state=DocumentState.RECEIVED,
            attempt=0,
            lease_expires_at=None,
            error_code="",
            error_message="",
            updated_at=timezone.now(),
        )
        if not reset:
            raise NotRetryable("Only a document that failed can be tried again.")
        _audit("document.retried", document, actor)
        enqueue(INGEST_TASK, tenant_id=tenant.id, document_id=str(document.id))


def delete_document(*, tenant: Tenant, document: Document, actor: User | None) -> None:
    """Delete a document: its rows, vectors, file and page images. Citations to it say so."""
    with tenant_scope(tenant.id):
        _audit("document.deleted", document, actor)
        Document.objects.filter(tenant=tenant, id=document.id).delete()
        transaction.on_commit(partial(_remove_files, tenant.id, document.id, document.storage_key))


def _save_named(collection: Collection, **options: object) -> None:
    try:
        with transaction.atomic():
            collection.save(**options)  # type: ignore[arg-type]
    except IntegrityError as exc:
        raise NameTaken(
            f"There is a collection named “{collection.name}” already. Choose another name."
        ) from exc


def _set_readers(collection: Collection, reader_ids: Iterable[int]) -> None:
    """Replace the readers; a collection that is open to all needs none."""
    tenant_id = collection.tenant_id
    CollectionReader.objects.filter(tenant_id=tenant_id, collection=collection).delete()
    if collection.open_to_all:
        return
    members = Membership.objects.filter(tenant_id=tenant_id, user_id__in=list(reader_ids))
    CollectionReader.objects.bulk_create(
        CollectionReader(tenant_id=tenant_id, collection=collection, user_id=user_id)
        for user_id in members.values_list("user_id", flat=True)
    )


def _refuse_duplicate(tenant: Tenant, collection: Collection, sha256: str) -> None:
    known = Document.objects.filter(tenant=tenant, collection=collection, sha256=sha256).first()
    if known is not None:
        raise DuplicateDocument(
            f"The collection has this file already, as “{known.name}”.", document=known
        )


def _insert(document: Document) -> None:
    """Save the row; the file goes again when that fails. Two uploads at once: one is told."""
    try:
        with transaction.atomic():
            document.save(force_insert=True)
    except BaseException as exc:
        files.remove(document.storage_key)
        if isinstance(exc, IntegrityError):
            _refuse_duplicate(document.tenant, document.collection, document.sha256)
        raise


def _remove_files(tenant_id: uuid.UUID, document_id: uuid.UUID, key: str) -> None:
    """After the commit: the document is gone already, so a failure is logged and not raised."""
    try:
        files.remove(key)
        shutil.rmtree(preview_folder(tenant_id, document_id), ignore_errors=True)
    except OSError as exc:
        logger.warning("file of deleted document %s not removed: %s", document_id, exc.strerror)


def _audit(action: str, subject: Collection | Document, actor: User | None) -> None:
    record_audit(
        action=action,
        tenant_id=subject.tenant_id,
        actor_id=actor.id if actor else None,
        subject_id=subject.id,
    )
