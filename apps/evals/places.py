"""From what a file says of a place to a document and a range of its text.

Call inside the tenant's scope.
"""

from __future__ import annotations

import unicodedata
import uuid
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from apps.documents.files import clean_path
from apps.documents.models import Document, DocumentState
from apps.documents.selectors import pages_of

# Folding a text takes some 40 bytes a character; a longer one needs ranges or pages.
SEARCHED_CHARS_MAX = 10_000_000


@dataclass(frozen=True)
class Range:
    """Characters `start` to `end` of a document's text."""

    start: int
    end: int
    is_repeated: bool = False  # the same words stand there again later


class Names:
    """The documents of a collection, by what a file may call them.

    By path, path without its ending, name, and name without its ending, in this order. Of the
    versions of a path it is the one that is searched, else the newest.
    """

    def __init__(
        self, tenant_id: uuid.UUID, collection_id: uuid.UUID, asked: Iterable[str]
    ) -> None:
        wanted = set(asked)
        wanted |= {clean_path(name) for name in wanted}
        self._found: dict[tuple[int, str], list[uuid.UUID]] = {}
        self._known: dict[str, list[uuid.UUID]] = {}
        for path, document_id in _answering(tenant_id, collection_id):
            for rank, name in enumerate(_names_of(path)):
                if name in wanted:
                    self._found.setdefault((rank, name), []).append(document_id)

    def find(self, name: str) -> list[uuid.UUID]:
        """The documents that `name` may stand for: none, one, or several of them."""
        if name not in self._known:
            self._known[name] = self._look_for(name)
        return self._known[name]

    def _look_for(self, name: str) -> list[uuid.UUID]:
        for form in (name, clean_path(name)):
            for rank in range(4):
                if found := self._found.get((rank, form)):
                    return found
        return []


def _names_of(path: str) -> tuple[str, str, str, str]:
    whole = PurePosixPath(path)
    return path, str(whole.with_suffix("")) if whole.name else path, whole.name, whole.stem


def _answering(tenant_id: uuid.UUID, collection_id: uuid.UUID) -> Iterator[tuple[str, uuid.UUID]]:
    rows = (
        Document.objects.filter(tenant_id=tenant_id, collection_id=collection_id)
        .exclude(state=DocumentState.SUPERSEDED)
        .order_by("version")
        .values_list("path", "id", "state")
    )
    chosen: dict[str, tuple[bool, uuid.UUID]] = {}
    for path, document_id, state in rows.iterator(chunk_size=5000):
        is_ready = state == DocumentState.READY
        if path not in chosen or is_ready or not chosen[path][0]:
            chosen[path] = (is_ready, document_id)
    return ((path, document_id) for path, (_, document_id) in chosen.items())


class DocumentText:
    """One document's text, to find passages in."""

    def __init__(self, tenant_id: uuid.UUID, document_id: uuid.UUID) -> None:
        self._pages = list(pages_of(tenant_id, document_id).values_list("number", "char_start"))
        self._ids = (tenant_id, document_id)

    @property
    def is_read(self) -> bool:
        """Whether there is a text: not before the document was read, nor where that failed."""
        return bool(self._pages)

    @cached_property
    def length(self) -> int:
        if not self._pages:
            return 0
        last = pages_of(*self._ids).filter(number=self._pages[-1][0]).values_list("text", flat=True)
        return self._pages[-1][1] + len(last.first() or "")

    @property
    def is_too_long(self) -> bool:
        return self.length > SEARCHED_CHARS_MAX

    def page(self, number: int) -> Range | None:
        """All of a page; None where there is none, or nothing on it."""
        starts = dict(self._pages)
        if number not in starts:
            return None
        text = pages_of(*self._ids).filter(number=number).values_list("text", flat=True).first()
        return Range(starts[number], starts[number] + len(text)) if text else None

    def find(self, passage: str) -> Range | None:
        """Where `passage` stands: as it is, else but for spaces, punctuation, case and accents."""
        start = self._text.find(passage)
        if start >= 0:
            is_repeated = self._text.find(passage, start + 1) >= 0
            return Range(start, start + len(passage), is_repeated)
        words = "".join(map(_fold, passage))
        start = self._folded.find(words) if words else -1
        if start < 0:
            return None
        end = self._origins[start + len(words) - 1] + 1
        return Range(self._origins[start], end, self._folded.find(words, start + 1) >= 0)

    @cached_property
    def _text(self) -> str:
        parts, length = [], 0
        rows = pages_of(*self._ids).values_list("char_start", "text")
        for start, text in rows.iterator(chunk_size=200):
            parts += [" " * (start - length), text]
            length = start + len(text)
        return "".join(parts)

    @cached_property
    def _folding(self) -> tuple[str, array[int]]:
        parts, origins = [], array("I")
        for place, char in enumerate(self._text):
            folded = _fold(char)
            parts.append(folded)
            origins.extend([place] * len(folded))
        return "".join(parts), origins

    @property
    def _folded(self) -> str:
        return self._folding[0]

    @property
    def _origins(self) -> array[int]:
        return self._folding[1]


@lru_cache(maxsize=20_000)
def _fold(char: str) -> str:
    """What tells words apart: letters, digits, vowel signs (Thai, Devanagari); no accents."""
    plain = unicodedata.normalize("NFKD", char).casefold()
    return "".join(
        each
        for each in unicodedata.normalize("NFKD", plain)
        if unicodedata.category(each)[0] in "LN"
        or (unicodedata.category(each)[0] == "M" and not unicodedata.combining(each))
    )


def text_between(
    tenant_id: uuid.UUID, places: Iterable[tuple[uuid.UUID, int, int]]
) -> Mapping[tuple[uuid.UUID, int, int], str]:
    """The text of ranges of documents; those of documents that are gone are left out."""
    found: dict[tuple[uuid.UUID, int, int], str] = {}
    for document_id, start, end in dict.fromkeys(places):
        pages = pages_of(tenant_id, document_id).filter(char_start__lt=end)
        first = pages.filter(char_start__lte=start).values_list("number", flat=True).last()
        rows = pages.filter(number__gte=first or 0).values_list("char_start", "text")
        text = "\n".join(
            page[max(0, start - at) : end - at] for at, page in rows if at + len(page) > start
        )
        if text:
            found[document_id, start, end] = text
    return found
