"""From bytes to a stored file with its row and its job: hop receive."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import IO

from django.db import IntegrityError, InterfaceError, OperationalError
from django.db.models import F, Max

from apps.documents import files, jobs, quotas
from apps.documents.errors import CollectionGone, DuplicateDocument
from apps.documents.models import Batch, Collection, Document, DocumentState
from apps.documents.selectors import versions_of
from apps.documents.services.common import audit, lock
from apps.documents.services.tagging import clean_tags
from apps.telemetry.hops import Trace
from apps.telemetry.services import record_trace
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope

_VERSION_ATTEMPTS = 5


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
    tags: Sequence[str] = (),
    key_id: uuid.UUID | None = None,
) -> Document:
    """Store one file and send it on its way.

    `path` is its name, or its path in the folder that is sent. Another file under the same path
    becomes its next version; the one before answers until that is ready. Without `tags` it has
    those of the version before. `key_id` is the API key that it was sent with. The document counts
    once its bytes are on disk and its row is committed; until then nothing is left of it.

    Raises FileTooLarge, EmptyFile, QuotaExceeded, CollectionGone, or DuplicateDocument, which
    carries the document that has the same bytes; where that is an earlier version under this path,
    the later ones are withdrawn.
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
            key_id=key_id,
            tags=clean_tags(tags),
        )
        document.name = document.path.rpartition("/")[2]
        trace.trace_id = document.id
        try:
            with tenant_scope(tenant.id):
                _refuse_duplicate(document)
                is_new = not versions_of(document).exists()
                quotas.refuse_without_room(quotas.addition_of(document, is_new=is_new))
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
    same: then the file stays, and fsck finds it if there is no row.
    """
    try:
        for attempt in range(1, _VERSION_ATTEMPTS + 1):
            try:
                with tenant_scope(document.tenant_id):
                    _refuse_duplicate(document)
                    document.version = _next_version(document)
                    document.tags = document.tags or _tags_before(document)
                    document.save(force_insert=True)
                    is_new = document.version == 1
                    quotas.refuse_overrun(quotas.addition_of(document, is_new=is_new))
                    audit("document.uploaded", document, user)
                    jobs.submit(document)
                return
            except IntegrityError as exc:
                if not _collection_exists(document):
                    raise CollectionGone("The collection was deleted meanwhile.") from exc
                if attempt == _VERSION_ATTEMPTS:
                    raise
    except (OperationalError, InterfaceError):
        raise
    except BaseException:
        files.remove(document.storage_key)
        raise


def _collection_exists(document: Document) -> bool:
    with tenant_scope(document.tenant_id):
        return Collection.objects.filter(
            tenant_id=document.tenant_id, id=document.collection_id
        ).exists()


def _withdraw_later_versions(document: Document) -> None:
    """The file is again what it was in this version: what came after it must not replace it."""
    with tenant_scope(document.tenant_id):
        lock(document.collection_id)
        versions = versions_of(document)
        current = versions.filter(
            id=document.id, state__in=[*jobs.UNFINISHED, DocumentState.READY]
        ).first()
        if current is not None:
            jobs.supersede(versions.filter(version__gt=current.version))


def _tags_before(document: Document) -> list[str]:
    newest = versions_of(document).values_list("tags", flat=True).first()
    return list(newest or [])


def _next_version(document: Document) -> int:
    last = versions_of(document).aggregate(last=Max("version"))["last"]
    return int(last or 0) + 1
