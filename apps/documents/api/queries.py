"""What a key may read. Call inside the tenant's scope."""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import Count, Q, QuerySet

from apps.documents.api.errors import ApiError, not_found
from apps.documents.files import clean_path
from apps.documents.jobs import UNFINISHED
from apps.documents.models import Batch, Collection, Document, DocumentState
from apps.tenants.access import KeyAccess

T = TypeVar("T")

LIMIT_DEFAULT, LIMIT_MAX = 50, 200
STATES: dict[str, tuple[str, ...]] = {
    **{str(state): (state,) for state in DocumentState.values},
    "unfinished": UNFINISHED,
}


def collections_of(access: KeyAccess) -> QuerySet[Collection]:
    """The collections that a key opens, by name."""
    every = Collection.objects.filter(tenant=access.tenant).order_by("name")
    only = access.collection_ids
    return every if only is None else every.filter(id__in=only)


def collection_of(access: KeyAccess, collection_id: uuid.UUID) -> Collection:
    """Raises ApiError."""
    return _found(collections_of(access).filter(id=collection_id).first())


def document_of(access: KeyAccess, document_id: uuid.UUID) -> Document:
    """Raises ApiError."""
    documents = Document.objects.filter(tenant=access.tenant, id=document_id)
    return _found(documents.filter(_opened(access)).first())


def batch_of(access: KeyAccess, batch_id: uuid.UUID) -> Batch:
    """Raises ApiError."""
    batches = Batch.objects.filter(tenant=access.tenant, id=batch_id)
    return _found(batches.filter(_opened(access)).first())


def batch_counts(batch: Batch) -> dict[str, int]:
    """Documents of a batch by their state; every state is there."""
    rows = (
        Document.objects.filter(tenant_id=batch.tenant_id, batch=batch)
        .values_list("state")
        .annotate(documents=Count("id"))
    )
    return {str(state): 0 for state in DocumentState.values} | dict(rows)


@dataclass(frozen=True)
class Page:
    """Some documents of a collection, and where the next ones begin ("": there are none)."""

    documents: list[Document]
    next: str


def documents_page(
    collection: Collection, *, state: str = "", path: str = "", cursor: str = "", limit: str = ""
) -> Page:
    """Documents, newest first; without `state`, those that no newer version has replaced.

    Raises ApiError.
    """
    found = Document.objects.filter(tenant_id=collection.tenant_id, collection=collection)
    if state:
        found = found.filter(state__in=_states(state))
    elif not path:
        found = found.exclude(state=DocumentState.SUPERSEDED)
    if path:
        found = found.filter(path=clean_path(path))
    if cursor:
        at, after = _read_cursor(cursor)
        found = found.filter(Q(created_at__lt=at) | Q(created_at=at, id__gt=after))
    size = _limit(limit)
    rows = list(found.order_by("-created_at", "id")[: size + 1])
    return Page(rows[:size], _write_cursor(rows[size - 1]) if len(rows) > size else "")


def _opened(access: KeyAccess) -> Q:
    only = access.collection_ids
    return Q() if only is None else Q(collection_id__in=only)


def _found(row: T | None) -> T:
    if row is None:
        raise not_found()
    return row


def _states(name: str) -> tuple[str, ...]:
    if name not in STATES:
        raise ApiError(422, "bad_state", f"The states are: {', '.join(STATES)}.")
    return STATES[name]


def _limit(limit: str) -> int:
    if not limit:
        return LIMIT_DEFAULT
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:9]) <= LIMIT_MAX):
        raise ApiError(422, "bad_limit", f"limit is a number from 1 to {LIMIT_MAX}.")
    return int(limit)


def _write_cursor(document: Document) -> str:
    place = f"{document.created_at.isoformat()} {document.id.hex}"
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[datetime, uuid.UUID]:
    try:
        place = base64.b64decode(cursor + "=" * (-len(cursor) % 4), "-_", validate=True).decode()
        at, _, document_id = place.partition(" ")
        found = datetime.fromisoformat(at), uuid.UUID(document_id)
        if found[0].tzinfo is None:
            raise ValueError(at)
    except ValueError as exc:
        raise ApiError(422, "bad_cursor", "Give the “next” of the page before as cursor.") from exc
    return found
