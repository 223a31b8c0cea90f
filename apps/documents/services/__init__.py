"""What changes collections and documents. Every function here owns its transaction."""

from __future__ import annotations

from apps.documents.services.collections import (
    create_collection,
    update_collection,
)
from apps.documents.services.deleting import (
    delete_collection,
    delete_document,
    delete_tenant,
)
from apps.documents.services.receiving import (
    count_unchanged,
    open_batch,
    receive_upload,
)
from apps.documents.services.retrying import (
    retry_document,
    retry_failed,
    unlock_document,
)
from apps.documents.services.tagging import clean_tags, set_tags, split_tags

__all__ = [
    "clean_tags",
    "count_unchanged",
    "create_collection",
    "delete_collection",
    "delete_document",
    "delete_tenant",
    "open_batch",
    "receive_upload",
    "retry_document",
    "retry_failed",
    "set_tags",
    "split_tags",
    "unlock_document",
    "update_collection",
]
