"""Columns fit their plot, say their figures, and are marked by round values."""

from __future__ import annotations

from itertools import pairwise

import pytest

from apps.ops.columns import BOTTOM, TOP, Column, Figure, columns


def figure(*parts: float, tick: str = "", incomplete: bool = False) -> Figure:
    return Figure(parts, "words", "short", tick, incomplete=incomplete)


def heights(column: Column) -> list[float]:
    return [piece.height for piece in column.pieces]


@pytest.mark.parametrize(
    ("highest", "marks"),
    [
        (1, ["0", "0.5", "1"]),
        (7, ["0", "4", "8"]),
        (23_456, ["0", "12000", "24000"]),
        (100, ["0", "50", "100"]),
        (101, ["0", "60", "120"]),
        (0.0003, ["0", "0.00015", "0.0003"]),
        (2**63, ["0", "5e+18", "1e+19"]),
        (0, []),
    ],
)
def test_the_axis_ends_at_the_next_round_value(highest: float, marks: list[str]) -> None:
    chart = columns([figure(highest), figure(0)], lambda value: f"{value:.6g}")
    assert [tick.text for tick in chart.y_ticks] == marks


@pytest.mark.parametrize("count", [1, 2, 31, 100])
def test_columns_stay_within_the_plot_and_apart(count: int) -> None:
    made = columns([figure(10**12 * n) for n in range(count)], str).columns
    for column in made:
        assert 0 <= column.slot_x <= column.x
        assert column.x + column.width <= column.slot_x + column.slot_width + 0.001 <= 100.01
        for piece in column.pieces:
            assert TOP - 0.01 <= piece.y <= BOTTOM
            assert piece.y + piece.height <= BOTTOM + 0.01
    assert all(a.x + a.width < b.x for a, b in pairwise(made))


def test_a_small_figure_is_seen_and_none_is_not_drawn() -> None:
    small, none, large = columns([figure(1), figure(0), figure(10**9)], str).columns
    assert heights(small) == [0.8]
    assert heights(none) == []
    assert heights(large) == [BOTTOM - TOP]


def test_parts_stand_on_one_another() -> None:
    (column,) = columns([figure(30, 0, 70)], str).columns
    lower, upper = column.pieces
    assert (lower.number, upper.number) == (1, 3)
    assert lower.y == pytest.approx(upper.y + upper.height)
    assert lower.height / upper.height == pytest.approx(3 / 7)


def test_the_stub_of_what_is_not_known_is_on_top_and_inside() -> None:
    empty, full = columns([figure(0, incomplete=True), figure(8, incomplete=True)], str).columns
    assert empty.stub_y == BOTTOM - 6
    assert full.stub_y == TOP - 6 >= 0


@pytest.mark.parametrize(("count", "marked"), [(0, 0), (1, 1), (5, 5), (7, 5), (100, 5)])
def test_as_many_dates_are_marked_as_a_phone_has_room_for(count: int, marked: int) -> None:
    ticks = columns([figure(1, tick=str(n)) for n in range(count)], str).x_ticks
    assert len(ticks) == marked
    if count > 1:
        assert (ticks[0].text, ticks[-1].text) == ("0", str(count - 1))
        assert (ticks[0].side, ticks[-1].side) == (("first", "last") if count > 3 else ("", ""))
