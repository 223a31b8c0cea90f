"""CSV and TSV: one line a row, every cell with its header."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.decode import decode
from apps.documents.parsing.kinds import CSV
from apps.documents.parsing.types import Part, Source, rows_as_text

_FIELD_MAX_CHARS = 10_000_000
_DELIMITERS = ",;\t|"


class DelimitedParser:
    def reads(self, kind: str) -> bool:
        return kind in {CSV, "text/tab-separated-values"}

    def parse(self, source: Source) -> Iterator[Part]:
        text = clean_text(decode(source.data))
        csv.field_size_limit(_FIELD_MAX_CHARS)
        try:
            rows = list(csv.reader(StringIO(text), delimiter=_delimiter(text)))
        except csv.Error:
            yield Part((text + "\n",))
            return
        lines = [" ".join(line.split()) for line in rows_as_text(rows)]
        yield Part(("".join(f"{line}\n" for line in lines),))


def _delimiter(text: str) -> str:
    """The one that the first line has most of."""
    first = text.lstrip("\n").partition("\n")[0]
    return max(_DELIMITERS, key=first.count)
