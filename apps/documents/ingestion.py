"""From a stored file to pages and chunks, then on to be indexed.

The sandbox gives a document section by section, and each is written as it comes, so that memory
stays flat whatever the size. Nobody finds a document before it is ready. The job may be killed at
any time and started over: its first write removes what an earlier attempt had written, and every
write is by whoever still holds the job.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from django.conf import settings
from django.db import connection
from django.utils import timezone

from apps.documents import files, jobs
from apps.documents.chunkings import chunking_in_force
from apps.documents.errors import DocumentError
from apps.documents.jobs import Claim
from apps.documents.models import Chunk, Chunking, Document, DocumentState, Page, Stage
from apps.documents.reading import Section, load_section
from apps.documents.tokenizer import tokenizer_file
from apps.telemetry.hops import Trace
from apps.telemetry.services import record_trace
from apps.tenants.scope import tenant_scope
from worker.sandbox import Limits, SandboxCrashed, SandboxError, run_sandboxed_stream

T = TypeVar("T")

# Of CPU: the least, and what each megabyte of the file is allowed besides.
_CPU_S_PER_MB = 10
_RETRY_S = 30.0
_PAGE_COLUMNS = {
    "tenant_id": "uuid", "document_id": "uuid", "number": "int", "text": "text",
    "char_start": "int",
}  # fmt: skip
_CHUNK_COLUMNS = {
    "id": "uuid", "tenant_id": "uuid", "document_id": "uuid", "generation": "int",
    "ordinal": "int", "text": "text", "heading_path": "text", "char_start": "int",
    "char_end": "int", "page_first": "int", "page_last": "int", "token_count": "int",
}  # fmt: skip


class _Lost(Exception):
    """The document was deleted, or another attempt took it over: stop, and say nothing."""

    code = "lost"


def ingest_next() -> bool:
    """Parse and chunk the document whose turn it is, and hand it on; or mark it failed.

    False when none waits.
    """
    claim = jobs.take(Stage.INGEST)
    if claim is None:
        return False
    try:
        with jobs.noting_crashes(claim):
            document = jobs.begin(claim, DocumentState.PARSING)
            if document is not None:
                _ingest_or_say_why(document, claim)
    finally:
        jobs.wake_others(claim)
    return True


def _ingest_or_say_why(document: Document, claim: Claim) -> None:
    trace = Trace(claim.tenant_id, "ingestion", trace_id=claim.document_id)
    try:
        _ingest(document, claim, trace)
    except _Lost:
        trace.hops[0].end_as("skipped", "document_gone")
    except (DocumentError, SandboxError) as exc:
        _give_up(claim, exc)
    finally:
        record_trace(trace)


def _give_up(claim: Claim, exc: DocumentError | SandboxError) -> None:
    code, message = exc.code, str(exc)
    if not (exc.retryable and jobs.wait(claim, delay_s=_RETRY_S, code=code, message=message)):
        jobs.mark_failed(claim, code=code, message=message)


def _ingest(document: Document, claim: Claim, trace: Trace) -> None:
    chunking = chunking_in_force(claim.tenant_id)
    writer = _Writer(document, claim, chunking.generation)
    with trace.hop("parse", wait_ms=claim.wait_ms) as parse:
        parse.set(bytes=document.size_bytes)
        with closing(read_sections(document, chunking, on_tick=partial(_hold, claim))) as sections:
            for section, last in _with_last(sections):
                writer.write(section, last=last)
        if not writer.passed_on:
            raise SandboxCrashed("its reader found nothing in it. It may be damaged.")
        parse.set(pages=writer.pages, chars=writer.chars, write_ms=round(writer.write_ms, 1))
    # Both happen in one process, in turn: it says how long each took.
    with trace.hop("chunk") as chunk:
        chunk.set(chunks=writer.chunks, tokens=writer.tokens)
    parse.work_ms -= writer.chunk_ms
    chunk.work_ms = writer.chunk_ms


def read_sections(
    document: Document, chunking: Chunking, *, on_tick: Callable[[], None]
) -> Generator[Section]:
    """The stored file, read and cut in the sandbox, section by section.

    `on_tick` is called while it works, and ends it by raising. Raises DocumentError, SandboxError.
    """
    tokenizer = tokenizer_file()
    try:
        with files.local_path(document.readable_key) as path:
            items = run_sandboxed_stream(
                "apps.documents.reading:read_file",
                {
                    "path": str(path),
                    "name": document.name,
                    "encoding": document.encoding,
                    "ocr": document.ocr,
                    "tokenizer_file": tokenizer,
                    "max_tokens": chunking.max_tokens,
                    "overlap_tokens": chunking.overlap_tokens,
                },
                limits=_limits(document),
                on_tick=on_tick,
                preload=("apps.documents.tokens:load_counter", tokenizer) if tokenizer else None,
            )
            with closing(items):  # which ends the process, wherever reading stops
                for item in items:
                    yield load_section(item)
    except (DocumentError, SandboxError):
        on_tick()  # its file may be missing because it was deleted: then there is nobody to tell
        raise


def _hold(claim: Claim) -> None:
    if not jobs.renew(claim):
        raise _Lost


def _limits(document: Document) -> Limits:
    """Wall time is for one section; CPU time for all of them, so it grows with the file."""
    return Limits(
        wall_s=settings.PARSE_TIMEOUT_S,
        memory_bytes=settings.PARSE_MEMORY_BYTES,
        cpu_s=2 * settings.PARSE_TIMEOUT_S + _CPU_S_PER_MB * document.size_bytes / 1e6,
    )


def _with_last(items: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """Each item, and whether it is the last."""
    iterator = iter(items)
    try:
        held = next(iterator)
    except StopIteration:
        return
    for item in iterator:
        yield held, False
        held = item
    yield held, True


@dataclass
class _Writer:
    """Puts sections into the tables, a transaction each; the last one passes the document on."""

    document: Document
    claim: Claim
    generation: int
    pages: int = 0
    chars: int = 0
    chunks: int = 0
    tokens: int = 0
    chunk_ms: float = 0.0
    write_ms: float = 0.0
    passed_on: bool = False

    def write(self, section: Section, *, last: bool) -> None:
        start = timezone.now()
        with tenant_scope(self.claim.tenant_id):
            if not jobs.hold(self.claim):
                raise _Lost
            if self.pages == 0:
                self._remove_what_there_is()
            self._insert_pages(section.pages)
            self._insert_chunks(section)
            self._count(section)
            self._update(section, last=last)
        self.write_ms += (timezone.now() - start).total_seconds() * 1000

    def _remove_what_there_is(self) -> None:
        owner = {"tenant_id": self.claim.tenant_id, "document_id": self.claim.document_id}
        Chunk.objects.filter(**owner).delete()
        Page.objects.filter(**owner).delete()

    def _insert_pages(self, pages: Sequence[str]) -> None:
        at = self.chars
        rows = []
        for number, text in enumerate(pages, start=self.pages + 1):
            rows.append((self.claim.tenant_id, self.claim.document_id, number, text, at))
            at += len(text)
        _insert("documents_page", _PAGE_COLUMNS, rows)

    def _insert_chunks(self, section: Section) -> None:
        before = Before(pages=self.pages, chars=self.chars, chunks=self.chunks)
        insert_chunks(self.document, self.generation, section, before)

    def _count(self, section: Section) -> None:
        self.pages += len(section.pages)
        self.chars += sum(len(page) for page in section.pages)
        self.chunks += len(section.passages)
        self.tokens += sum(passage.token_count for passage in section.passages)
        self.chunk_ms += section.chunk_ms

    def _update(self, section: Section, *, last: bool) -> None:
        Document.objects.filter(tenant_id=self.claim.tenant_id, id=self.claim.document_id).update(
            state=DocumentState.INDEXING if last else DocumentState.PARSING,
            generation=self.generation,
            kind=section.kind[:100],
            language=section.language[:8],
            page_count=self.pages,
            chunk_count=self.chunks,
            progress_done=0 if last else int(100 * section.progress),
            progress_total=0 if last else 100,
            updated_at=timezone.now(),
        )
        if last:
            self.passed_on = jobs.pass_on(self.claim, Stage.INDEX)


@dataclass(frozen=True)
class Before:
    """What of a document comes before a section of it."""

    pages: int
    chars: int
    chunks: int


def insert_chunks(document: Document, generation: int, section: Section, before: Before) -> None:
    """The section's passages as chunks of `generation`, in the open transaction."""
    rows = [
        (
            uuid.uuid4(),
            document.tenant_id,
            document.id,
            generation,
            ordinal,
            passage.text,
            passage.heading_path,
            before.chars + passage.start,
            before.chars + passage.end,
            before.pages + passage.page_first + 1,
            before.pages + passage.page_last + 1,
            passage.token_count,
        )
        for ordinal, passage in enumerate(section.passages, start=before.chunks)
    ]
    _insert("documents_chunk", _CHUNK_COLUMNS, rows)


def _insert(table: str, columns: Mapping[str, str], rows: Sequence[Sequence[object]]) -> None:
    """All rows in one statement, a list a column: COPY is refused under row-level security."""
    if not rows:
        return
    lists = ", ".join(f"%s::{kind}[]" for kind in columns.values())
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({lists})",  # noqa: S608
            [list(column) for column in zip(*rows, strict=True)],
        )
