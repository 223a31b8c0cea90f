"""What changes collections and documents. Every function here owns its transaction."""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from typing import IO

from django.db import IntegrityError, transaction
from django.db.models import F, Max, QuerySet
from django.utils import timezone

from apps.documents import files, jobs, unlocking
from apps.documents.errors import (
    DuplicateDocument,
    NameTaken,
    NotRetryable,
    PasswordProtected,
    StorageUnavailable,
)
from apps.documents.models import Batch, Collection, CollectionReader, Document, DocumentState
from apps.documents.previews import preview_folder
from apps.telemetry.hops import Trace
from apps.telemetry.services import record_audit, record_trace
from apps.tenants.models import Membership, Tenant, User
from apps.tenants.scope import tenant_scope

logger = logging.getLogger(__name__)

_VERSION_ATTEMPTS = 5


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
        bool(Collection.objects.select_for_update().filter(tenant=tenant, id=collection.id))
        _remove_files_later(
            tenant.id, Document.objects.filter(tenant=tenant, collection=collection)
        )
        _audit("collection.deleted", collection, actor)
        Collection.objects.filter(tenant=tenant, id=collection.id).delete()


def open_batch(
    *,
    tenant: Tenant,
    collection: Collection,
    user: User | None,
    source: Batch.Source,
    expected: int = 0,
) -> Batch:
    """A batch for documents that are sent together; `expected` files, where that is known."""
    with tenant_scope(tenant.id):
        return Batch.objects.create(
            tenant=tenant,
            collection=collection,
            created_by=user,
            source=source,
            expected=max(0, min(expected, 2**31 - 1)),
        )


def receive_upload(
    *,
    tenant: Tenant,
    collection: Collection,
    user: User | None,
    path: str,
    file: files.Chunked | IO[bytes],
    batch: Batch | None = None,
) -> Document:
    """Store one file and send it on its way.

    `path` is its name, or its path in the folder that is sent. Another file under the same path
    becomes its next version; the one before answers until that is ready. The document counts once
    its bytes are on disk and its row is committed; until then nothing is left of it. Raises
    FileTooLarge, EmptyFile, or DuplicateDocument, which carries the document that has the same
    bytes; where that is an earlier version under this path, the later ones are withdrawn.
    """
    trace = Trace(tenant.id, "ingestion")
    with trace.hop("receive") as hop, files.receive(file) as received:
        hop.set(bytes=received.size_bytes)
        document = Document(
            tenant=tenant,
            collection=collection,
            path=files.clean_path(path),
            batch=batch,
            size_bytes=received.size_bytes,
            sha256=received.sha256,
            uploaded_by=user,
        )
        document.name = document.path.rpartition("/")[2]
        trace.trace_id = document.id
        try:
            with tenant_scope(tenant.id):
                _refuse_duplicate(document)
            # Outside of a transaction: storage may be a slow one.
            document.storage_key = files.store(
                received, files.storage_key(tenant.id, document.id, received.sha256)
            )
            _insert(document, user)
        except DuplicateDocument as exc:
            if exc.document.path == document.path:
                _withdraw_later_versions(exc.document)
            raise
    record_trace(trace)
    return document


def count_unchanged(*, batch: Batch) -> None:
    """One more file of the batch turned out to be there already."""
    with tenant_scope(batch.tenant_id):
        Batch.objects.filter(tenant_id=batch.tenant_id, id=batch.id).update(
            unchanged=F("unchanged") + 1
        )


def retry_document(
    *,
    tenant: Tenant,
    document: Document,
    actor: User | None,
    encoding: str | None = None,
    ocr: bool | None = None,
) -> None:
    """Send a failed document on its way again, read in another way where one is given.

    A document that is ready is read anew when `encoding` or `ocr` says how. Raises NotRetryable.
    """
    changes = {"encoding": encoding, "ocr": ocr}
    given = {name: value for name, value in changes.items() if value is not None}
    states = [DocumentState.FAILED, *([DocumentState.READY] if given else [])]
    with tenant_scope(tenant.id):
        _send_again(tenant, document, states, **given)
        _audit("document.retried", document, actor)


def retry_failed(
    *, tenant: Tenant, collection: Collection, actor: User | None, code: str = ""
) -> int:
    """Send all failed documents of a collection on their way again, or those with `code`.

    How many that were.
    """
    with tenant_scope(tenant.id):
        _lock(collection.id)
        failed = Document.objects.filter(
            tenant=tenant, collection=collection, state=DocumentState.FAILED
        )
        if code:
            failed = failed.filter(error_code=code)
        documents = list(failed.order_by("id").select_for_update(no_key=True))
        _reset(failed.filter(id__in=[document.id for document in documents]))
        for document in sorted(documents, key=lambda each: (each.created_at, each.id)):
            jobs.submit(document)
        if documents:
            _audit("collection.retried", collection, actor)
    return len(documents)


def unlock_document(
    *, tenant: Tenant, document: Document, actor: User | None, password: str
) -> None:
    """Open a password-protected document and send it on its way again.

    The password is used as typed and kept nowhere; a decrypted copy of the file is kept. Raises
    NotRetryable, WrongPassword, or whatever else the reader says.
    """
    if document.state != DocumentState.FAILED or document.error_code != PasswordProtected.code:
        raise NotRetryable("This document does not wait for a password.")
    key = unlocking.store_unlocked(document, password)
    try:
        with tenant_scope(tenant.id):
            _send_again(tenant, document, [DocumentState.FAILED], unlocked_key=key)
            _audit("document.unlocked", document, actor)
    except BaseException:
        files.remove(key)
        raise


def delete_document(*, tenant: Tenant, document: Document, actor: User | None) -> None:
    """Delete a document in all its versions: rows, vectors, files and page images.

    Citations to it say so.
    """
    with tenant_scope(tenant.id):
        _lock(document.collection_id)
        versions = Document.objects.filter(
            tenant=tenant, collection_id=document.collection_id, path=document.path
        )
        _remove_files_later(tenant.id, versions)
        _audit("document.deleted", document, actor)
        versions.delete()


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


def _send_again(
    tenant: Tenant, document: Document, states: Sequence[str], **changes: object
) -> None:
    """In the open transaction. Raises NotRetryable when it is in none of `states`."""
    documents = Document.objects.filter(tenant=tenant, id=document.id, state__in=states)
    if not _reset(documents, **changes):
        raise NotRetryable("Only a document that failed can be tried again.")
    jobs.submit(document)


def _reset(documents: QuerySet[Document], **changes: object) -> int:
    return documents.update(
        state=DocumentState.RECEIVED,
        error_code="",
        error_message="",
        updated_at=timezone.now(),
        **changes,
    )


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


def _refuse_duplicate(document: Document) -> None:
    known = (
        Document.objects.filter(
            tenant=document.tenant, collection=document.collection, sha256=document.sha256
        )
        .exclude(state=DocumentState.SUPERSEDED)
        .first()
    )
    if known is not None:
        raise DuplicateDocument(
            f"The collection has this file already, as “{known.path}”.", document=known
        )


def _insert(document: Document, user: User | None) -> None:
    """Save the row with its job; the file goes again when that fails.

    Of two uploads of the same bytes at once, one is told; of two that are versions of the same
    path, one takes the next number. Where the database was lost, the row may be there all the
    same: then the file stays.
    """
    try:
        for attempt in range(1, _VERSION_ATTEMPTS + 1):
            try:
                with tenant_scope(document.tenant_id):
                    _refuse_duplicate(document)
                    document.version = _next_version(document)
                    document.save(force_insert=True)
                    _audit("document.uploaded", document, user)
                    jobs.submit(document)
                return
            except IntegrityError:
                if attempt == _VERSION_ATTEMPTS:
                    raise
    except BaseException:
        files.remove(document.storage_key)
        raise


def _withdraw_later_versions(document: Document) -> None:
    """The file is again what it was in this version: what came after it must not replace it."""
    with tenant_scope(document.tenant_id):
        _lock(document.collection_id)
        versions = Document.objects.filter(
            tenant_id=document.tenant_id,
            collection_id=document.collection_id,
            path=document.path,
        )
        current = versions.filter(
            id=document.id, state__in=[*jobs.UNFINISHED, DocumentState.READY]
        ).first()
        if current is not None:
            jobs.supersede(versions.filter(version__gt=current.version))


def _next_version(document: Document) -> int:
    last = Document.objects.filter(
        tenant=document.tenant, collection=document.collection, path=document.path
    ).aggregate(last=Max("version"))["last"]
    return int(last or 0) + 1


def _lock(collection_id: uuid.UUID) -> None:
    """Collection before documents: the order in which indexing takes them, so no deadlock."""
    bool(Collection.objects.select_for_update(no_key=True).filter(id=collection_id))


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


def _audit(action: str, subject: Collection | Document, actor: User | None) -> None:
    record_audit(
        action=action,
        tenant_id=subject.tenant_id,
        actor_id=actor.id if actor else None,
        subject_id=subject.id,
    )
