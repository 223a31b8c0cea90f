"""Deleting documents, collections and tenants, with their files."""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Callable, Sequence
from functools import partial

from django.db import transaction
from django.db.models import QuerySet

from apps.documents import files
from apps.documents.errors import StorageUnavailable
from apps.documents.models import Collection, Document
from apps.documents.previews import preview_folder
from apps.documents.selectors import versions_of
from apps.documents.services.common import audit, lock
from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope

logger = logging.getLogger(__name__)
# Told of a tenant's collection from which documents go, in the transaction in which they do:
# whoever keeps what was written about them forgets it.
on_delete: list[Callable[[uuid.UUID, uuid.UUID], None]] = []


def delete_document(*, tenant: Tenant, document: Document, actor: User | None) -> None:
    """Delete a document in all its versions: rows, vectors, files and page images.

    Citations to it say so.
    """
    with tenant_scope(tenant.id):
        lock(document.collection_id)
        versions = versions_of(document)
        _remove_files_later(tenant.id, versions)
        audit("document.deleted", document, actor)
        versions.delete()
        _tell(tenant.id, document.collection_id)


def delete_collection(*, tenant: Tenant, collection: Collection, actor: User | None) -> None:
    """Delete a collection with all its documents: rows, vectors, files and page images.

    The database removes what hangs on the row; files go after the commit.
    """
    with tenant_scope(tenant.id):
        bool(Collection.objects.select_for_update().filter(tenant=tenant, id=collection.id))
        _remove_files_later(
            tenant.id, Document.objects.filter(tenant=tenant, collection=collection)
        )
        audit("collection.deleted", collection, actor)
        Collection.objects.filter(tenant=tenant, id=collection.id).delete()
        _tell(tenant.id, collection.id)


def delete_tenant(*, tenant: Tenant, actor: User | None) -> None:
    """Delete a tenant with everything it has: rows, vectors, files and page images."""
    with tenant_scope(tenant.id):
        record_audit(
            action="tenant.deleted",
            tenant_id=tenant.id,
            actor_id=actor.id if actor else None,
            subject_id=tenant.id,
        )
        # Collections first: their documents go in the order in which workers take locks.
        collections = Collection.objects.filter(tenant=tenant).order_by("id")
        bool(collections.select_for_update())
        _remove_files_later(tenant.id, Document.objects.filter(tenant=tenant))
        collections.delete()
        Tenant.objects.filter(id=tenant.id).delete()


def _tell(tenant_id: uuid.UUID, collection_id: uuid.UUID) -> None:
    for told in on_delete:
        told(tenant_id, collection_id)


def _remove_files_later(tenant_id: uuid.UUID, documents: QuerySet[Document]) -> None:
    """Once the deletion is committed, their files go. They are held, so that none gets another."""
    held = documents.order_by("id").select_for_update()
    for document in held.only("id", "storage_key", "unlocked_key"):
        keys = [key for key in (document.storage_key, document.unlocked_key) if key]
        transaction.on_commit(partial(_remove_files, tenant_id, document.id, keys))


def _remove_files(tenant_id: uuid.UUID, document_id: uuid.UUID, keys: Sequence[str]) -> None:
    """The document is gone already, so a failure is logged and not raised: fsck finds the file."""
    try:
        for key in keys:
            files.remove(key)
        shutil.rmtree(preview_folder(tenant_id, document_id), ignore_errors=True)
    except StorageUnavailable as exc:
        logger.warning("file of deleted document %s not removed: %s", document_id, exc.code)
