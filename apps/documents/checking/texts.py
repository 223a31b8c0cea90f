"""A document's text is whole: pages follow each other, and every chunk stands where it says."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db import connection
from django.db.models import Exists, F, OuterRef, QuerySet

from apps.documents.checking.repairs import read_again
from apps.documents.checking.types import Finding, Options, snapshot
from apps.documents.models import Chunk, Document, DocumentState, Page

_READ = (DocumentState.READY, DocumentState.SUPERSEDED)
_FETCH_PAGES, _FETCH_CHUNKS = 20, 500  # rows held at a time; a page has 100,000 characters at most

# A page begins where the one before it ends, and is the next number; one row a wrong document.
_PAGES = """
    WITH run AS (
        SELECT page.document_id, number, char_start, char_length(text) AS length,
            row_number() OVER ordered AS place,
            COALESCE(sum(char_length(text)) OVER before, 0) AS due
        FROM documents_page AS page
        WHERE tenant_id = %(tenant)s AND (%(only)s::uuid IS NULL OR document_id = %(only)s)
        WINDOW ordered AS (PARTITION BY document_id ORDER BY number),
            before AS (PARTITION BY document_id ORDER BY number
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ), counted AS (
        SELECT document_id, count(*) AS pages,
            bool_or(number <> place OR char_start <> due) AS torn
        FROM run GROUP BY document_id
    )
    SELECT document.id, document.state, document.page_count, COALESCE(pages, 0),
        COALESCE(torn, false)
    FROM documents_document AS document
    LEFT JOIN counted ON counted.document_id = document.id
    WHERE document.tenant_id = %(tenant)s AND state = ANY(%(states)s)
        AND (%(only)s::uuid IS NULL OR document.id = %(only)s)
        AND (COALESCE(torn, false) OR COALESCE(pages, 0) <> page_count)
    ORDER BY document.id
"""
_CHUNKS = """
    WITH counted AS (
        SELECT document_id, generation, count(*) AS chunks, max(ordinal) AS last
        FROM documents_chunk
        WHERE tenant_id = %(tenant)s AND (%(only)s::uuid IS NULL OR document_id = %(only)s)
        GROUP BY document_id, generation
    )
    SELECT document.id, document.state, document.chunk_count, COALESCE(chunks, 0)
    FROM documents_document AS document
    LEFT JOIN counted
        ON counted.document_id = document.id AND counted.generation = document.generation
    WHERE document.tenant_id = %(tenant)s AND state = ANY(%(states)s)
        AND (%(only)s::uuid IS NULL OR document.id = %(only)s)
        AND (COALESCE(chunks, 0) <> chunk_count OR COALESCE(last, -1) <> chunk_count - 1)
    ORDER BY document.id
"""


def broken_pages(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Pages that are missing, too many, or not where the one before them ends."""
    for document_id, state, said, found, torn in _rows(_PAGES, tenant_id):
        words = f"{found} pages are there, {said} were read." if found != said else ""
        if torn:
            words = f"{words} Its pages do not follow each other.".strip()
        yield _finding("broken_pages", tenant_id, document_id, state, words, _pages_are_broken)


def broken_chunks(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Chunks that are missing or too many."""
    for document_id, state, said, found in _rows(_CHUNKS, tenant_id):
        words = f"{found} passages are there, {said} were made."
        if found == said:
            words = "Its passages are not numbered one after the other."
        yield _finding("broken_chunks", tenant_id, document_id, state, words, _chunks_are_broken)


def chunks_that_say_something_else(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Chunks whose text is not the pages' text at their offsets, or that name other pages.

    Reads all text of the tenant, in order, a few pages at a time.
    """
    with snapshot(tenant_id):
        faults = list(_faults(tenant_id))
    for document_id, state, wrong in faults:
        words = f"{wrong} passages are not the pages' text at their place."
        yield _finding("changed_chunks", tenant_id, document_id, state, words, _says_something_else)


def _finding(
    kind: str, tenant_id: uuid.UUID, document_id: uuid.UUID, state: str, words: str, still: Any
) -> Finding:
    """A ready document is read anew from its file; an old version's text cannot be had back."""
    repair = None
    if state == DocumentState.READY:
        repair = partial(read_again, tenant_id, document_id, still)
    return Finding(kind, str(document_id), words, tenant_id, repair)


def _pages_are_broken(document: Document) -> bool:
    return bool(_query(_PAGES, document.tenant_id, document.id))


def _chunks_are_broken(document: Document) -> bool:
    return bool(_query(_CHUNKS, document.tenant_id, document.id))


def _says_something_else(document: Document) -> bool:
    return any(_faults(document.tenant_id, document.id))


def _rows(query: str, tenant_id: uuid.UUID) -> list[tuple[Any, ...]]:
    with snapshot(tenant_id):
        return _query(query, tenant_id, None)


def _query(query: str, tenant_id: uuid.UUID, only: uuid.UUID | None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, {"tenant": tenant_id, "only": only, "states": list(_READ)})
        return list(cursor.fetchall())


def _faults(
    tenant_id: uuid.UUID, only: uuid.UUID | None = None
) -> Iterator[tuple[uuid.UUID, str, int]]:
    """Document, state, wrong chunks; pages and chunks are read side by side. In one snapshot."""
    pages = _Pages(_of(Page.objects.all(), tenant_id, only).order_by("document_id", "number"))
    chunks = (
        _of(Chunk.objects.filter(generation=F("document__generation")), tenant_id, only)
        .annotate(state=F("document__state"))
        .order_by("document_id", "ordinal")
        .values_list(
            "document_id", "state", "char_start", "char_end", "page_first", "page_last", "text"
        )
    )
    stream = chunks.iterator(chunk_size=_FETCH_CHUNKS)
    for (document_id, state), rows in groupby(stream, key=itemgetter(0, 1)):
        pages.turn_to(document_id)
        wrong = sum(not pages.say(*row[2:]) for row in rows)
        if wrong:
            yield document_id, state, wrong


def _of(rows: QuerySet[Any], tenant_id: uuid.UUID, only: uuid.UUID | None) -> QuerySet[Any]:
    read = Document.objects.filter(tenant_id=tenant_id, id=OuterRef("document_id"), state__in=_READ)
    rows = rows.filter(Exists(read), tenant_id=tenant_id)
    return rows if only is None else rows.filter(document_id=only)


class _Pages:
    """The pages of one document after another, and of those the ones that chunks still need."""

    def __init__(self, rows: QuerySet[Any]) -> None:
        fields = ("document_id", "number", "char_start", "text")
        self._rows = rows.values_list(*fields).iterator(chunk_size=_FETCH_PAGES)
        self._next = next(self._rows, None)
        self._document: uuid.UUID | None = None
        self._held: dict[int, tuple[int, str]] = {}  # page number -> offset, text

    def turn_to(self, document_id: uuid.UUID) -> None:
        self._document, self._held = document_id, {}
        while self._next is not None and self._next[0] < document_id:
            self._next = next(self._rows, None)

    def say(self, start: int, end: int, first: int, last: int, text: str) -> bool:
        """Whether pages `first` to `last` have `text` at these offsets. Chunks come in order."""
        self._read_to(last)
        for number in [number for number in self._held if number < first]:
            del self._held[number]
        held = [self._held[number] for number in range(first, last + 1) if number in self._held]
        if len(held) != last - first + 1:
            return False
        at = held[0][0]
        whole = "".join(page for _, page in held)
        fits = at <= start < at + len(held[0][1]) and held[-1][0] < end
        return fits and whole[start - at : end - at] == text

    def _read_to(self, last: int) -> None:
        while self._next is not None and self._next[:2] <= (self._document, last):
            _, number, at, text = self._next
            self._held[number] = (at, text)
            self._next = next(self._rows, None)
