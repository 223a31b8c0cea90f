"""Which of the ranked passages are given: near-duplicates dropped, several documents heard.

Pure functions. They work on the passages of one answer, best first, and on the limit asked for.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

# Shingles of so many words in a row (Broder 1997). A passage that has this share of its own in a
# better one says nothing new.
SHINGLE_WORDS = 4
CONTAINED_FROM = 0.8
# From the third passage of one document on, another document's goes first where the scores, sums
# of standard deviations, are closer than this.
PASSAGES_OF_ONE = 2
CROWDED = 0.25


@dataclass(frozen=True)
class Selectable:
    """A ranked passage, as far as selecting needs to know it."""

    chunk_id: uuid.UUID
    document_id: uuid.UUID
    score: float
    terms: Sequence[int]  # of its text with headings, in order
    telling: frozenset[int]  # of these, the question's own and those with a digit


@dataclass(frozen=True)
class Selection:
    """The passages that are given, best first, and what became of the others."""

    scores: dict[uuid.UUID, float]  # in order; falling
    duplicates: int  # dropped because a better passage says the same
    moved: int  # given in another order than their scores', or instead of another


def select(passages: Sequence[Selectable], *, limit: int) -> Selection:
    """The first `limit` of `passages` (best first) that are no copies, documents taking turns.

    A copy is dropped whatever its rank, and the next passage takes its place. The order changes
    only among close scores; with one document, not at all.
    """
    left: list[Selectable] = list(passages)
    kept: list[tuple[Selectable, float, frozenset[tuple[int, ...]]]] = []
    counts: Counter[uuid.UUID] = Counter()
    duplicates = 0
    while left and len(kept) < limit:
        best = max(left, key=lambda each: each.score - _penalty(counts[each.document_id]))
        left.remove(best)
        shingles = shingles_of(best.terms)
        if any(_says_the_same(best, shingles, other, theirs) for other, _, theirs in kept):
            duplicates += 1
            continue
        kept.append((best, best.score - _penalty(counts[best.document_id]), shingles))
        counts[best.document_id] += 1
    scores = {each.chunk_id: score for each, score, _ in kept}
    plain = [each.chunk_id for each in passages if each.chunk_id in scores]
    moved = sum(a != b for a, b in zip(scores, plain, strict=True))
    return Selection(scores, duplicates, moved)


def shingles_of(terms: Sequence[int]) -> frozenset[tuple[int, ...]]:
    """All runs of `SHINGLE_WORDS` terms; of a shorter text the whole."""
    size = min(SHINGLE_WORDS, len(terms))
    if not size:
        return frozenset()
    return frozenset(tuple(terms[at : at + size]) for at in range(len(terms) - size + 1))


def _says_the_same(
    passage: Selectable,
    shingles: frozenset[tuple[int, ...]],
    better: Selectable,
    theirs: frozenset[tuple[int, ...]],
) -> bool:
    """Whether `better` holds nearly all of `passage`.

    Forms and price lists differ in little but that little matters: a passage with a number, or a
    word of the question, that the better one lacks is no copy.
    """
    if not shingles or len(shingles & theirs) < CONTAINED_FROM * len(shingles):
        return False
    return passage.telling <= better.telling


def _penalty(given: int) -> float:
    return CROWDED if given >= PASSAGES_OF_ONE else 0.0
