"""All that ingestion made of a tenant's files, in a form that two runs can be compared by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.running_stack import Stack

_DOCUMENTS = """
    SELECT path, version, state, error_code, kind, language, page_count, chunk_count, sha256
    FROM documents_document JOIN tenants_tenant AS tenant ON tenant.id = tenant_id
    WHERE slug = %s ORDER BY path, version
"""
# A superseded version may have been overtaken before it was read: its text is no promise.
_JOINED = """
    FROM {table} AS row JOIN documents_document AS document ON document.id = row.document_id
    JOIN tenants_tenant AS tenant ON tenant.id = row.tenant_id
    {more} WHERE slug = %s AND document.state <> 'superseded'
"""
_CHUNK = "JOIN documents_chunk AS chunk ON chunk.id = row.chunk_id"
_PAGES = "SELECT path, number, char_start, md5(text)" + _JOINED.format(
    table="documents_page", more=""
)
_CHUNKS = """
    SELECT path, ordinal, char_start, char_end, page_first, page_last, token_count,
        md5(heading_path), md5(text)
""" + _JOINED.format(table="documents_chunk", more="")
_TERMS = "SELECT path, ordinal, length, md5(terms::text), md5(weights::text)" + _JOINED.format(
    table="retrieval_chunkterms", more=_CHUNK
)
_VECTORS = "SELECT path, ordinal, embedding::text" + _JOINED.format(
    table="search.chunkvector", more=_CHUNK
)
_STATISTICS = """
    SELECT chunk_count, total_length, weighted_with_average FROM retrieval_collectionstatistics
    JOIN tenants_tenant AS tenant ON tenant.id = tenant_id WHERE slug = %s
"""
_TERM_FREQUENCIES = """
    SELECT term, chunk_count FROM retrieval_termfrequency
    JOIN tenants_tenant AS tenant ON tenant.id = tenant_id WHERE slug = %s
"""
_TABLES = {
    "document": _DOCUMENTS,
    "page": _PAGES,
    "chunk": _CHUNKS,
    "terms": _TERMS,
    "statistics": _STATISTICS,
    "term frequency": _TERM_FREQUENCIES,
}

Halves = npt.NDArray[np.float16]


@dataclass(frozen=True)
class Fingerprint:
    """Rows by what they are, without ids and times; vectors by document and passage."""

    rows: dict[str, list[tuple[Any, ...]]]
    vectors: dict[tuple[str, int], Halves] = field(default_factory=dict)

    def differences(self, other: Fingerprint) -> Iterator[str]:
        """What is not the same, in words; vectors are compared bit by bit."""
        for name, mine in self.rows.items():
            theirs = other.rows[name]
            yield from (f"{name} only before: {row}" for row in _without(mine, theirs))
            yield from (f"{name} only after: {row}" for row in _without(theirs, mine))
        if self.vectors.keys() != other.vectors.keys():
            yield "passages with vectors differ"
            return
        for key, vector in self.vectors.items():
            if not np.array_equal(vector, other.vectors[key]):
                apart = np.abs(vector.astype(float) - other.vectors[key].astype(float)).max()
                yield f"vector of {key} differs by {apart:.6f} at most"


def take_fingerprint(stack: Stack, slug: str) -> Fingerprint:
    """Of everything a tenant has. Its weights have to be made with one average length."""
    rows = {name: sorted(stack.rows(query, slug)) for name, query in _TABLES.items()}
    vectors = {
        (path, ordinal): np.array(text.strip("[]").split(","), np.float16)
        for path, ordinal, text in stack.rows(_VECTORS, slug)
    }
    return Fingerprint(rows, vectors)


def _without(rows: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows that are not among the others, the first few; a row that is there twice counts twice."""
    left = list(others)
    missing = []
    for row in rows:
        if row in left:
            left.remove(row)
        else:
            missing.append(row)
    return missing[:5]
