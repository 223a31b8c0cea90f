"""From a stored file to pages and chunks: parse → chunk, then on to be indexed.

The job may be killed at any time and started over: pages, chunks and the next state are written
in one transaction, by whoever still holds the document.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Any

from django.conf import settings
from django.utils import timezone

from apps.documents import files, jobs
from apps.documents.chunking import Span, load_spans
from apps.documents.errors import DocumentError
from apps.documents.models import Chunk, Document, DocumentState, Page
from apps.documents.tokenizer import tokenizer_file
from apps.telemetry.hops import Trace
from apps.telemetry.services import record_trace
from apps.tenants.scope import tenant_scope
from worker.enqueue import enqueue
from worker.sandbox import Limits, SandboxError, run_sandboxed

INDEX_TASK = "retrieval.index_document"
# Renewed every few seconds while the sandbox works, so that a killed worker is noticed soon.
_LEASE_S = 60
_ROWS_AT_ONCE = 500


class _Lost(Exception):
    """The document was deleted, or another attempt took it over: stop, and say nothing."""

    code = "lost"


@dataclass(frozen=True)
class _Text:
    """What the parser found, as it came out of the sandbox."""

    kind: str
    pages: Sequence[str]
    headings: Sequence[Sequence[Any]]
    language: str


def ingest_document(*, tenant_id: uuid.UUID, document_id: uuid.UUID) -> None:
    """Parse and chunk a received document, and hand it on to be indexed; or mark it failed.

    Does nothing when another worker holds it, or it is gone or further on already.
    """
    since = _waiting_since(tenant_id, document_id)
    document = jobs.claim(
        tenant_id=tenant_id,
        document_id=document_id,
        from_states=(DocumentState.RECEIVED, DocumentState.PARSING, DocumentState.CHUNKING),
        to_state=DocumentState.PARSING,
        lease_s=_LEASE_S,
    )
    if document is None:
        return
    trace = Trace(tenant_id, "ingestion", trace_id=document_id)
    wait_ms = (timezone.now() - since).total_seconds() * 1000 if since else 0.0
    try:
        _ingest(document, trace, wait_ms)
    except _Lost:
        return
    except (DocumentError, SandboxError) as exc:
        jobs.mark_failed(
            tenant_id=tenant_id, document_id=document_id, code=exc.code, message=str(exc)
        )
    finally:
        record_trace(trace)


def _ingest(document: Document, trace: Trace, wait_ms: float) -> None:
    hold = partial(_hold, document)
    with trace.hop("parse", wait_ms=wait_ms) as hop:
        text = _parse(document, hold)
        hop.set(bytes=document.size_bytes, pages=len(text.pages), chars=sum(map(len, text.pages)))
    if not jobs.advance(
        tenant_id=document.tenant_id,
        document_id=document.id,
        from_state=DocumentState.PARSING,
        to_state=DocumentState.CHUNKING,
    ):
        raise _Lost
    with trace.hop("chunk") as hop:
        spans = _chunk(text, hold)
        hop.set(chunks=len(spans), tokens=sum(span.token_count for span in spans))
        _store(document, text, spans)


def _waiting_since(tenant_id: uuid.UUID, document_id: uuid.UUID) -> datetime | None:
    with tenant_scope(tenant_id):
        found = Document.objects.filter(tenant_id=tenant_id, id=document_id)
        return found.values_list("updated_at", flat=True).first()


def _hold(document: Document) -> None:
    if not jobs.renew_lease(
        tenant_id=document.tenant_id,
        document_id=document.id,
        attempt=document.attempt,
        lease_s=_LEASE_S,
    ):
        raise _Lost


def _parse(document: Document, hold: Callable[[], None]) -> _Text:
    try:
        with files.local_path(document.storage_key) as path:
            result = run_sandboxed(
                "apps.documents.parsing.parse:parse_file",
                {"path": str(path), "name": document.name},
                limits=_limits(),
                on_tick=hold,
            )
    except (DocumentError, SandboxError):
        hold()  # its file may be missing because it was deleted: then there is nobody to tell
        raise
    return _Text(**result)


def _chunk(text: _Text, hold: Callable[[], None]) -> list[Span]:
    tokenizer = tokenizer_file()
    result = run_sandboxed(
        "apps.documents.chunking:chunk_pages",
        {
            "pages": text.pages,
            "headings": text.headings,
            "tokenizer_file": tokenizer,
            "max_tokens": settings.CHUNK_TOKENS,
            "overlap_tokens": settings.CHUNK_OVERLAP_TOKENS,
        },
        limits=_limits(),
        on_tick=hold,
        preload=("apps.documents.tokens:load_counter", tokenizer) if tokenizer else None,
    )
    return load_spans(result)


def _limits() -> Limits:
    return Limits(wall_s=settings.PARSE_TIMEOUT_S, memory_bytes=settings.PARSE_MEMORY_BYTES)


def _store(document: Document, text: _Text, spans: Sequence[Span]) -> None:
    """Replace pages and chunks, and pass the document on, in one transaction."""
    tenant_id = document.tenant_id
    with tenant_scope(tenant_id):
        held = Document.objects.select_for_update().filter(
            tenant_id=tenant_id,
            id=document.id,
            state=DocumentState.CHUNKING,
            attempt=document.attempt,
        )
        if held.only("id").first() is None:
            raise _Lost
        Page.objects.filter(tenant_id=tenant_id, document_id=document.id).delete()
        Chunk.objects.filter(tenant_id=tenant_id, document_id=document.id).delete()
        Page.objects.bulk_create(_pages(document, text.pages), batch_size=_ROWS_AT_ONCE)
        Chunk.objects.bulk_create(_chunks(document, text.pages, spans), batch_size=_ROWS_AT_ONCE)
        held.update(
            state=DocumentState.INDEXING,
            attempt=0,
            lease_expires_at=None,
            kind=text.kind[:100],
            language=text.language[:8],
            page_count=len(text.pages),
            chunk_count=len(spans),
            updated_at=timezone.now(),
        )
        enqueue(INDEX_TASK, tenant_id=tenant_id, document_id=str(document.id))


def _starts(pages: Sequence[str]) -> list[int]:
    return [0, *accumulate(len(page) for page in pages[:-1])]


def _pages(document: Document, pages: Sequence[str]) -> list[Page]:
    return [
        Page(
            tenant_id=document.tenant_id,
            document_id=document.id,
            number=number,
            text=page,
            char_start=start,
        )
        for number, (page, start) in enumerate(zip(pages, _starts(pages), strict=True), start=1)
    ]


def _chunks(document: Document, pages: Sequence[str], spans: Sequence[Span]) -> list[Chunk]:
    whole, starts = "".join(pages), _starts(pages)
    return [
        Chunk(
            tenant_id=document.tenant_id,
            document_id=document.id,
            ordinal=ordinal,
            text=whole[span.start : span.end],
            heading_path=span.heading_path,
            char_start=span.start,
            char_end=span.end,
            page_first=bisect_right(starts, span.start),
            page_last=bisect_right(starts, span.end - 1),
            token_count=span.token_count,
        )
        for ordinal, span in enumerate(spans)
    ]
