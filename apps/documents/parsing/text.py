"""Plain text, as it stands. Pages are form feeds, where it has them."""

from __future__ import annotations

from collections.abc import Iterator

from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.decode import decode
from apps.documents.parsing.kinds import TEXT
from apps.documents.parsing.types import Part, Source


class TextParser:
    def reads(self, kind: str) -> bool:
        return kind == TEXT

    def parse(self, source: Source) -> Iterator[Part]:
        pages = [clean_text(page) for page in decode(source.data).split("\f")]
        pages = [page if page.endswith("\n") or not page else page + "\n" for page in pages]
        yield Part(tuple(pages))
