"""A document's passages of another generation: its file read again, or the passages it has."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import connection

from apps.documents.errors import DocumentError
from apps.documents.models import Chunk, Chunking, Document
from apps.documents.rechunking import chunk_again, hold_ready
from apps.tenants.scope import tenant_scope
from worker.sandbox import SandboxError

logger = logging.getLogger(__name__)

_COPY = """
    INSERT INTO documents_chunk (id, tenant_id, document_id, generation, ordinal, text,
        heading_path, char_start, char_end, page_first, page_last, token_count)
    SELECT gen_random_uuid(), tenant_id, document_id, %s, ordinal, text,
        heading_path, char_start, char_end, page_first, page_last, token_count
    FROM documents_chunk WHERE tenant_id = %s AND document_id = %s AND generation = %s
"""


def cut(document: Document, chunking: Chunking, *, on_tick: Callable[[], None]) -> None:
    """Write the document's chunks of `chunking.generation`.

    A file that cannot be read any more must not cost the document: its passages are then taken
    over as they are. Raises DocumentGone, and a retryable DocumentError or SandboxError.
    """
    try:
        chunk_again(document, chunking, on_tick=on_tick)
    except (DocumentError, SandboxError) as exc:
        if exc.retryable:
            raise
        logger.warning("document %s could not be cut anew (%s)", document.id, exc.code)
        _take_over(document, chunking.generation)


def _take_over(document: Document, generation: int) -> None:
    with tenant_scope(document.tenant_id):
        hold_ready(document)
        Chunk.objects.filter(
            tenant_id=document.tenant_id, document_id=document.id, generation=generation
        ).delete()
        with connection.cursor() as cursor:
            cursor.execute(
                _COPY, [generation, document.tenant_id, document.id, document.generation]
            )
