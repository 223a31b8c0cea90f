"""What goes out: rows as JSON objects."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.documents.jobs import UNFINISHED
from apps.documents.models import Batch, Collection, Document, DocumentState
from apps.documents.selectors import Counts


def collection_object(collection: Collection, counts: Counts) -> dict[str, Any]:
    return {
        "id": str(collection.id),
        "name": collection.name,
        "description": collection.description,
        "created_at": _time(collection.created_at),
        "documents": {
            "total": counts.total,
            "ready": counts.ready,
            "failed": counts.failed,
            "unfinished": counts.unfinished,
        },
    }


def document_object(document: Document) -> dict[str, Any]:
    """Where one version of a file stands. `waits_for`: what an unfinished one waits for."""
    reason = {"code": document.error_code, "message": document.error_message}
    said = reason if document.error_code else None
    failed = document.state == DocumentState.FAILED
    return {
        "id": str(document.id),
        "collection_id": str(document.collection_id),
        "batch_id": str(document.batch_id) if document.batch_id else None,
        "path": document.path,
        "name": document.name,
        "version": document.version,
        "state": document.state,
        "error": said if failed else None,
        "waits_for": said if document.state in UNFINISHED else None,
        "progress": {"done": document.progress_done, "total": document.progress_total},
        "kind": document.kind,
        "language": document.language,
        "tags": document.tags,
        "size_bytes": document.size_bytes,
        "sha256": document.sha256,
        "pages": document.page_count,
        "chunks": document.chunk_count,
        "created_at": _time(document.created_at),
        "updated_at": _time(document.updated_at),
        "ready_at": _time(document.ready_at),
    }


def batch_object(batch: Batch, counts: dict[str, int]) -> dict[str, Any]:
    """`expected` files, of which those are here that `counts` says, and `unchanged` came before."""
    return {
        "id": str(batch.id),
        "collection_id": str(batch.collection_id),
        "source": batch.source,
        "expected": batch.expected,
        "unchanged": batch.unchanged,
        "documents": counts,
        "finished": not any(counts[state] for state in UNFINISHED),
        "created_at": _time(batch.created_at),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
