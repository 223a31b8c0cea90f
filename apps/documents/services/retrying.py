"""Sending a document on its way again, as it is or read in another way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import QuerySet
from django.utils import timezone

from apps.documents import files, jobs, unlocking
from apps.documents.errors import NotRetryable, PasswordProtected
from apps.documents.models import Collection, Document, DocumentState
from apps.documents.services.common import audit, lock
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope

# Others that touch the collection wait no longer than for so many.
_RETRIED_AT_ONCE = 500


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
        audit("document.retried", document, actor)


def retry_failed(
    *, tenant: Tenant, collection: Collection, actor: User | None, code: str = ""
) -> int:
    """Send all failed documents of a collection on their way again, or those with `code`.

    How many that were.
    """
    sent = 0
    # Those that fail once more meanwhile are not sent in circles.
    before = timezone.now()
    while batch := _retry_some(tenant, collection, code, before):
        sent += batch
    if sent:
        audit("collection.retried", collection, actor)
    return sent


def _retry_some(tenant: Tenant, collection: Collection, code: str, before: datetime) -> int:
    """One transaction of them, the oldest first."""
    with tenant_scope(tenant.id):
        lock(collection.id)
        failed = Document.objects.filter(
            tenant=tenant,
            collection=collection,
            state=DocumentState.FAILED,
            updated_at__lt=before,
        )
        if code:
            failed = failed.filter(error_code=code)
        oldest = failed.order_by("created_at", "id").values_list("id", flat=True)[:_RETRIED_AT_ONCE]
        chosen = Document.objects.filter(tenant=tenant, id__in=list(oldest))
        documents = list(chosen.order_by("id").select_for_update(no_key=True))
        _reset(chosen)
        for document in sorted(documents, key=lambda each: (each.created_at, each.id)):
            jobs.submit(document)
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
            audit("document.unlocked", document, actor)
    except BaseException:
        files.remove(key)
        raise


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
