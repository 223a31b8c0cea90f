"""Charts are lines in percent of the plot: no figure may fall outside, whatever it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.evals.charts import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    Axis,
    Reading,
    Series,
    draw,
    share_axis,
    time_axis,
)

UNIT = Axis(0.0, 1.0, [(0.0, "0"), (1.0, "1")])


def test_the_ends_of_both_axes_are_the_corners_of_the_plot() -> None:
    chart = draw([Series("a", [Reading(0, 0, "low"), Reading(1, 1, "high")])], x=UNIT, y=UNIT)
    low, high = chart.lines[0].points
    assert (low.x, low.y) == (LEFT, BOTTOM)
    assert (high.x, high.y) == (RIGHT, TOP)
    assert [tick.at for tick in chart.y_ticks] == [BOTTOM, TOP]


def test_a_line_joins_its_points_by_x_whatever_their_order() -> None:
    readings = [Reading(1, 1, "c"), Reading(0, 0, "a"), Reading(0.5, 1, "b")]
    line = draw([Series("a", readings)], x=UNIT, y=UNIT).lines[0]
    assert [point.title for point in line.points] == ["a", "b", "c"]
    pieces = list(line.pieces)
    assert len(pieces) == 2
    assert (pieces[0].x2, pieces[0].y2) == (pieces[1].x1, pieces[1].y1)


def test_one_value_stands_in_the_middle() -> None:
    axis = Axis(5.0, 5.0, [])
    point = draw([Series("a", [Reading(5, 0, "")])], x=axis, y=UNIT).lines[0].points[0]
    assert point.x == (LEFT + RIGHT) / 2


def test_a_logarithmic_axis_gives_each_power_the_same_room() -> None:
    axis = Axis(1.0, 100.0, [], logarithmic=True)
    assert axis.share(10.0) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.81, 0.86], (0.7, 0.9)),
        ([0.0, 1.0], (0.0, 1.0)),
        ([1.0, 1.0], (0.8, 1.0)),
        ([0.0], (0.0, 0.2)),
        ([], (0.0, 1.0)),
        ([0.3, 0.3], (0.1, 0.3)),
    ],
)
def test_shares_end_at_tenths_and_never_blow_noise_up(
    values: list[float], ends: tuple[float, float]
) -> None:
    axis = share_axis(values)
    assert (axis.low, axis.high) == pytest.approx(ends)
    assert all(0 <= axis.share(value) <= 1 for value in values)
    assert axis.ticks[0][0] == pytest.approx(axis.low)
    assert axis.ticks[-1][0] <= axis.high + 1e-9


def test_times_are_marked_by_days_or_by_hours() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    days = time_axis([noon, noon + timedelta(days=30)])
    assert [text for _, text in days.ticks] == ["31 Mar", "21 Mar", "11 Mar", "01 Mar"]
    hours = time_axis([noon + timedelta(hours=3), noon])
    assert hours.ticks[-1][1] == "01 Mar 12:00"
    minute = time_axis([noon, noon + timedelta(seconds=50)])
    assert minute.ticks == [(noon.timestamp(), "01 Mar 12:00")], "no date is said twice"
    alone = time_axis([noon])
    assert len(alone.ticks) == 1
    assert alone.share(noon.timestamp()) == 0.5


def test_levels_bands_and_intervals_stand_where_their_values_are() -> None:
    reading = Reading(0.5, 0.5, "middle", low=0.25, high=1.0)
    chart = draw(
        [Series("a", [reading])],
        x=UNIT,
        y=UNIT,
        levels=[(1.0, "promise")],
        bands=[(0.0, 1.0, "anywhere")],
    )
    assert [(level.at, level.text) for level in chart.levels] == [(TOP, "promise")]
    (band,) = chart.bands
    assert (band.x, band.width) == (LEFT, RIGHT - LEFT)
    (point,) = chart.lines[0].points
    assert point.high == TOP
    assert point.low is not None
    assert point.low > point.y


def test_a_reading_without_an_interval_has_none_on_the_plot() -> None:
    (point,) = draw([Series("a", [Reading(0.5, 0.5, "")])], x=UNIT, y=UNIT).lines[0].points
    assert (point.low, point.high) == (None, None)
