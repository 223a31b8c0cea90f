"""Search measured on a table of its own."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from apps.capacity.models import SearchMeasurement
from apps.capacity.retrieval_planning.measuring import Order, measure_search
from apps.capacity.retrieval_planning.points import Point

pytestmark = pytest.mark.django_db(transaction=True)


def test_each_size_is_measured_exactly_and_through_hnsw() -> None:
    row = measure_search(Order(dimensions=32, sizes=(300, 600), ef_searches=(100,), questions=10))
    points = [Point.of_json(each) for each in row.points]
    assert [(each.kind, each.passages) for each in points] == [
        ("exact", 300), ("hnsw", 300), ("exact", 600), ("hnsw", 600),
    ]  # fmt: skip
    assert row.complete
    assert all(each.searches == 10 and 0 < each.p50_ms <= each.p95_ms for each in points)
    assert points[0].recall is None
    # So few passages, so many candidates: nearly all is found.
    assert points[1].recall is not None
    assert points[1].recall > 0.9
    assert "made up" in row.source


def test_what_was_measured_is_kept_when_the_time_is_over() -> None:
    row = measure_search(
        Order(dimensions=16, sizes=(200, 400), ef_searches=(100,), questions=10, most_s=0.0)
    )
    assert not row.complete
    assert {each["passages"] for each in row.points} == {200}


def test_the_sites_own_table_is_left_as_it_was() -> None:
    measure_search(Order(dimensions=16, sizes=(200,), ef_searches=(100,), questions=10))
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM search.chunkvector")
        assert cursor.fetchone() == (0,)


def test_the_command_prints_a_line_for_each_way() -> None:
    out = io.StringIO()
    call_command(
        "measure-search", "--sizes=200,300", "--dimensions=16", "--questions=10", stdout=out
    )
    assert out.getvalue().count("HNSW, ef_search") == 6
    assert SearchMeasurement.objects.get().complete


@pytest.mark.parametrize(
    "option",
    ["--sizes=1", "--sizes=a", "--sizes=", "--dimensions=0", "--questions=9", "--minutes=0"],
)
def test_the_command_refuses_what_cannot_be_measured(option: str) -> None:
    with pytest.raises(CommandError):
        call_command("measure-search", option)
