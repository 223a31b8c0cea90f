"""The measured curves that a plan is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.capacity.models import SearchMeasurement
from apps.capacity.retrieval_planning.fits import Fit, fit
from apps.capacity.retrieval_planning.points import Point


@dataclass(frozen=True)
class Curves:
    """The newest measurement of some dimensions, and the lines through it."""

    row: SearchMeasurement
    exact: tuple[Point, ...]
    hnsw: tuple[Point, ...]  # at one ef_search
    ef_search: int
    exact_p95: Fit | None
    hnsw_p95: Fit | None
    exact_work: Fit | None  # of a core, a search
    hnsw_work: Fit | None

    def points(self, way: str) -> tuple[Point, ...]:
        return self.exact if way == "exact" else self.hnsw

    def p95(self, way: str) -> Fit | None:
        return self.exact_p95 if way == "exact" else self.hnsw_p95

    def work(self, way: str) -> Fit | None:
        return self.exact_work if way == "exact" else self.hnsw_work


def measured_dimensions() -> list[int]:
    """Those of which there is a measurement."""
    rows = SearchMeasurement.objects.exclude(points=[]).order_by("dimensions")
    return list(rows.values_list("dimensions", flat=True).distinct())


def curves_of(dimensions: int, ef_search: int) -> Curves | None:
    """The newest measurement with the nearest ef_search that was measured; None: there is none."""
    row = (
        SearchMeasurement.objects.filter(dimensions=dimensions)
        .exclude(points=[])
        .order_by("-started_at")
        .first()
    )
    if row is None:
        return None
    points = [Point.of_json(each) for each in row.points]
    exact = tuple(each for each in points if each.kind == "exact")
    known = {each.ef_search for each in points if each.ef_search is not None}
    nearest = min(known, key=lambda ef: abs(ef - ef_search), default=0)
    hnsw = tuple(each for each in points if each.ef_search == nearest)
    return Curves(
        row=row,
        exact=exact,
        hnsw=hnsw,
        ef_search=nearest,
        exact_p95=fit("exact", [(each.passages, each.p95_ms) for each in exact]),
        hnsw_p95=fit("hnsw", [(each.passages, each.p95_ms) for each in hnsw]),
        exact_work=fit("exact", _work(exact)),
        hnsw_work=fit("hnsw", _work(hnsw)),
    )


def _work(points: Sequence[Point]) -> list[tuple[int, float]]:
    """Of a core; without that figure, all of the time that a search took, which is not less."""
    return [(each.passages, each.cpu_ms or each.mean_ms) for each in points]
