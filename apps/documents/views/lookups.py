"""From the ids of an address to what they name; 404 where that is not open to this person."""

from __future__ import annotations

import uuid

from django.http import Http404

from apps.documents import selectors
from apps.documents.models import Collection, Document
from apps.tenants.access import Access


def find_collection(access: Access, collection_id: uuid.UUID) -> Collection:
    found = selectors.get_collection_for(access, collection_id)
    if found is None:
        raise Http404
    return found


def find_document(
    access: Access, document_id: uuid.UUID, collection_id: uuid.UUID | None = None
) -> Document:
    found = selectors.get_document_for(access, document_id)
    if found is None or collection_id not in (None, found.collection_id):
        raise Http404
    return found
