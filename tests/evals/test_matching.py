"""Which labels a ranked chunk hits, and what takes a rank."""

from __future__ import annotations

import uuid

import pytest

from apps.evals.matching import Found, Labelled, grade_of, hits, units_of

A, B, C = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()


def found(document: uuid.UUID = A, start: int = 0, end: int = 100) -> Found:
    return Found(uuid.uuid4(), document, start, end, 1.0)


def label(
    document: uuid.UUID = A,
    start: int | None = None,
    end: int | None = None,
    *,
    grade: int = 1,
    id: int = 1,
) -> Labelled:
    return Labelled(id, document, start, end, grade)


@pytest.mark.parametrize(
    ("label_range", "chunk_range", "hit"),
    [
        ((0, 100), (0, 100), True),
        ((0, 100), (50, 150), True),  # half of both
        ((0, 100), (51, 151), False),
        ((10, 20), (0, 1000), True),  # a sentence in a long chunk
        ((0, 1000), (400, 420), True),  # a small chunk of a long label
        ((0, 20), (10, 1000), True),  # half of the label, the shorter
        ((0, 20), (11, 1000), False),
        ((0, 10), (10, 20), False),  # side by side
        ((0, 1), (1, 2), False),
        ((100, 200), (0, 50), False),
    ],
)
def test_a_range_is_hit_by_half_of_the_shorter(
    label_range: tuple[int, int], chunk_range: tuple[int, int], hit: bool
) -> None:
    assert hits(label(A, *label_range), found(A, *chunk_range)) is hit


def test_a_document_is_hit_by_any_chunk_of_it_and_of_no_other() -> None:
    assert hits(label(A), found(A, 5000, 5001))
    assert not hits(label(A), found(B))
    assert not hits(label(A, 0, 100), found(B, 0, 100))


def test_labels_of_documents_make_a_ranking_of_documents() -> None:
    ranked = [found(B, 0, 10), found(B, 10, 20), found(A), found(C), found(A, 100, 200)]
    assert units_of(ranked, [label(A)]) == [f"document:{B}", "label:1", f"document:{C}"]


def test_labels_of_ranges_rank_every_other_chunk_by_itself() -> None:
    other, again = found(A, 500, 600), found(A, 600, 700)
    ranked = [other, again, found(A, 0, 100), found(A, 20, 120)]
    assert units_of(ranked, [label(A, 0, 100)]) == [
        f"chunk:{other.chunk_id}",
        f"chunk:{again.chunk_id}",
        "label:1",
    ]


def test_a_label_of_either_kind_leaves_other_chunks_by_themselves() -> None:
    labels = [label(A, id=1), label(B, 0, 10, id=2)]
    ranked = [found(C, 0, 10), found(C, 10, 20), found(B, 0, 10), found(A)]
    assert len(units_of(ranked, labels)) == 4


def test_a_chunk_on_two_labels_stands_for_both_the_better_first() -> None:
    labels = [label(A, 0, 10, grade=1, id=1), label(A, 20, 30, grade=2, id=2)]
    assert units_of([found(A, 0, 100)], labels) == ["label:2", "label:1"]
    assert grade_of(found(A, 0, 100), labels) == 2


def test_a_label_of_grade_zero_is_a_unit_without_gain() -> None:
    labels = [label(A, 0, 100, grade=0)]
    assert units_of([found(A, 0, 100)], labels) == ["label:1"]
    assert grade_of(found(A, 0, 100), labels) == 0


def test_nothing_found_ranks_nothing() -> None:
    assert units_of([], [label(A)]) == []
    assert grade_of(found(A), []) == 0
