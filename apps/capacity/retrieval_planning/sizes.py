"""Bytes on disk of vectors and of the indexes over them, from PostgreSQL's and pgvector's layouts.

Pages are of 8,192 bytes: a header of 24, a line pointer of 4 a tuple, tuples aligned to 8. What
does not fit into the rest of a page begins the next. Checked against tables and indexes that were
really built (tests/capacity/test_retrieval_planning.py): within 6 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from apps.capacity.arithmetic.derived import Derived, given
from apps.capacity.errors import PlanInvalid

Storage = Literal["halfvec", "bit"]

PAGE = 8192
_PAGE_HEADER = 24
_LINE_POINTER = 4
_TUPLE_HEADER = 24  # 23, and a byte of nulls
# Of the site's table of vectors: id 8, five UUIDs of 16, slot 2.
_VECTOR_COLUMNS = 90
_VARLENA = 8  # length 4, dimensions 2, unused 2
# A row above this is stored beside its table, in pieces (PostgreSQL's TOAST_TUPLE_THRESHOLD).
_TOAST_ABOVE = 2032
_TOAST_PIECE = 1996
_TOAST_COLUMNS = 12  # value id 4, number 4, length 4
_TOAST_POINTER = 18
# pgvector's hnsw.h: an element's tuple before its vector, and the room at a page's end.
_ELEMENT = 72
_HNSW_SPECIAL = 8
_NEIGHBOUR = 6
_NEIGHBOUR_HEADER = 4
# A btree's entry: tuple header 8 and line pointer 4; pages are filled to nine tenths when built,
# and to about seven when keys come at random (measured by others as ln 2).
_BTREE_ENTRY = 12
_BTREE_FILLED = math.log(2)
_BTREE_KEYS = (16 * 3 + 8, 16 * 2, 16 * 2)  # once, by document, by chunk; `exact` is deduplicated
_BTREE_EXACT = 16.0  # bytes a row with keys that repeat, seen: 11.5 to 16.4
MOST_DIMENSIONS = 4000  # halfvec's, for HNSW
MOST_PASSAGES = 10**12


@dataclass(frozen=True)
class VectorBytes:
    """Bytes a passage, each with its formula."""

    table: Derived
    btrees: Derived
    hnsw: Derived


def vector_bytes(*, dimensions: int, storage: Storage = "halfvec", m: int = 16) -> VectorBytes:
    """What one passage's vector takes in the table, the btrees and an HNSW index.

    Raises PlanInvalid for dimensions outside 1 to 4,000 or m outside 2 to 100.
    """
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise PlanInvalid(f"Dimensions are to be from 1 to {MOST_DIMENSIONS:,}.")
    if not 2 <= m <= 100:
        raise PlanInvalid("m is to be from 2 to 100.")
    return VectorBytes(_table(dimensions), _btrees(), _hnsw(dimensions, storage, m))


def build_memory(*, passages: int, dimensions: int, storage: Storage, m: int) -> Derived:
    """Memory in which an HNSW graph is built without going to disk, as the site asks for it."""
    vector = dimensions / 8 if storage == "bit" else dimensions * 2
    each = (vector + 2 * m * 16 + 128) * 1.33
    return Derived(
        passages * each,
        "bytes",
        f"passages × (vector {vector:g} B + 2 × m × 16 B + 128 B) × 1.33 = {each:,.0f} B each",
        (given("passages", passages), given("m", m), given("dimensions", dimensions)),
        note="maintenance_work_mem of the build; with less, it takes many times as long.",
    )


def aligned(size: float) -> int:
    return math.ceil(size / 8) * 8


def _table(dimensions: int) -> Derived:
    inputs = (given("dimensions", dimensions), given("bytes a number", 2, note="halfvec"))
    vector = _VARLENA + 2 * dimensions
    row = aligned(_TUPLE_HEADER + _VECTOR_COLUMNS + vector)
    if row <= _TOAST_ABOVE:
        rows = (PAGE - _PAGE_HEADER) // (row + _LINE_POINTER)
        words = f"8,192 B a page / {rows} rows of {row} B (+ 4 B each)"
        return Derived(PAGE / rows, "bytes", f"{words} = {PAGE / rows:,.0f} B", inputs)
    inside = aligned(_TUPLE_HEADER + _VECTOR_COLUMNS + _TOAST_POINTER) + _LINE_POINTER
    beside = _beside(vector - _VARLENA // 2)
    total = PAGE / ((PAGE - _PAGE_HEADER) // inside) + beside
    words = f"row {inside} B + its vector of {vector:,} B beside the table {beside:,.0f} B"
    return Derived(
        total, "bytes", f"{words} = {total:,.0f} B", inputs,
        note="Rows above 2,032 B keep their vector beside the table: reading one takes longer.",
    )  # fmt: skip


def _beside(size: int) -> float:
    """Bytes a value of `size` takes in pieces, packed as they come, with the index over them."""
    full, rest = divmod(size, _TOAST_PIECE)
    pieces = [_TOAST_PIECE] * full + ([rest] if rest else [])
    tuples = [aligned(_TUPLE_HEADER + _TOAST_COLUMNS + piece) for piece in pieces]
    values, pages, free = 500, 0, 0
    for length in tuples * values:
        if free < length + _LINE_POINTER:
            pages, free = pages + 1, PAGE - _PAGE_HEADER
        free -= length + _LINE_POINTER
    return pages * PAGE / values + len(pieces) * 20 / 0.9


def _btrees() -> Derived:
    keys = sum(aligned(key) + _BTREE_ENTRY for key in _BTREE_KEYS)
    total = keys / _BTREE_FILLED + _BTREE_EXACT
    return Derived(
        total,
        "bytes",
        f"entries of {keys} B in three btrees / {_BTREE_FILLED:.2f} filled + {_BTREE_EXACT:g} B "
        f"= {total:,.0f} B",
        note="Freshly built ones take about three quarters of that.",
    )


def _hnsw(dimensions: int, storage: Storage, m: int) -> Derived:
    data = _VARLENA + (math.ceil(dimensions / 8) if storage == "bit" else 2 * dimensions)
    element = aligned(_ELEMENT + data)
    neighbours = aligned(_NEIGHBOUR_HEADER + 2 * m * _NEIGHBOUR)
    both = element + neighbours + 2 * _LINE_POINTER
    room = PAGE - _PAGE_HEADER - _HNSW_SPECIAL
    inputs = (given("dimensions", dimensions), given("m", m), given("storage", storage))
    each = max(1, room // both)
    # One element in m is on a level above as well, with m more neighbours.
    higher = m * _NEIGHBOUR / (m - 1) / room * PAGE
    total = PAGE / each + higher
    return Derived(
        total,
        "bytes",
        f"8,192 B a page / {each} elements of {element} B + {neighbours} B for 2 × m neighbours, "
        f"+ {higher:.0f} B of higher levels = {total:,.0f} B",
        inputs,
    )
