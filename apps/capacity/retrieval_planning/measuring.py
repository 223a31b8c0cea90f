"""Measuring search as a corpus grows: the statements of the site, on a table of its own.

At each size every question is asked by every way once, unmeasured, then once more, measured, in an
order drawn for each question: what the search before leaves in the caches falls on all alike.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from django.db import connection
from django.utils import timezone

from apps.capacity.models import SearchMeasurement
from apps.capacity.retrieval_planning.material import Material, make_material
from apps.capacity.retrieval_planning.points import Point
from apps.capacity.retrieval_planning.scratch import Scratch, scratch_table
from apps.capacity.retrieval_planning.sizes import build_memory
from apps.evals.tuning.figures import share_interval
from apps.evals.tuning.measuring import order_of
from apps.retrieval.options import EF_CONSTRUCTION, LEG_CANDIDATES, M
from apps.retrieval.plans import SearchPlan

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000)
EF_SEARCHES = (100, 200, 400)
QUESTIONS = 60
K = 20
# A size is not begun that would take longer than what is left, from how the last one went.
_GROWS = 1.5


@dataclass(frozen=True)
class Order:
    """What is to be measured."""

    dimensions: int
    sizes: Sequence[int] = SIZES
    ef_searches: Sequence[int] = EF_SEARCHES
    questions: int = QUESTIONS
    m: int = M
    ef_construction: int = EF_CONSTRUCTION
    most_s: float = 300.0


@dataclass
class _Times:
    ms: list[float] = field(default_factory=list)
    recalls: list[float] = field(default_factory=list)
    cpu_s: float | None = 0.0


def measure_search(
    order: Order, *, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> SearchMeasurement:
    """Measure and keep each size as it is done; what is there stays when it is interrupted.

    `progress` is told what is under way, the sizes done and their number. Raises
    MeasurementRunning.
    """
    with scratch_table(order.dimensions) as scratch:
        progress("making vectors", 0, len(order.sizes))
        most = max(order.sizes)
        material = make_material(
            dimensions=order.dimensions, passages=most, questions=order.questions
        )
        row = SearchMeasurement.objects.create(
            dimensions=order.dimensions, source=material.source, machine=describe_machine()
        )
        _measure_sizes(order, scratch, material, row, progress)
    row.machine["load_after"] = round(os.getloadavg()[0], 2)
    row.finished_at = timezone.now()
    row.save(update_fields=["machine", "finished_at", "complete"])
    return row


def _measure_sizes(
    order: Order,
    scratch: Scratch,
    material: Material,
    row: SearchMeasurement,
    progress: Callable[[str, int, int], None],
) -> None:
    until = time.monotonic() + order.most_s
    took_s, before = 0.0, 0
    for done, size in enumerate(sorted(order.sizes)):
        if done and time.monotonic() + took_s * _GROWS * size / before > until:
            return
        began = time.monotonic()
        progress(f"{size:,} passages", done, len(order.sizes))
        scratch.add(material.passages[scratch.count : size])
        row.points = [*row.points, *(p.as_json() for p in _at_size(order, scratch, material))]
        row.save(update_fields=["points"])
        took_s, before = time.monotonic() - began, size
    row.complete = True


def _at_size(order: Order, scratch: Scratch, material: Material) -> list[Point]:
    size = scratch.count
    memory = build_memory(
        passages=size, dimensions=order.dimensions, storage="halfvec", m=order.m
    ).value
    build_s, size_bytes = scratch.build_hnsw(
        m=order.m, ef_construction=order.ef_construction, memory_kb=max(65_536, int(memory / 1024))
    )
    plans: list[SearchPlan | None] = [None]
    plans += [
        SearchPlan("hnsw", "asked for", size, ef_search=ef, ann_id=0)
        for ef in order.ef_searches
        if ef >= LEG_CANDIDATES
    ]
    times = _ask(scratch, material, plans)
    exact, *others = times
    points = [Point(kind="exact", passages=size, **_figures(exact))]
    for plan, each in zip(plans[1:], others, strict=True):
        recall = float(np.mean(each.recalls))
        low, high = share_interval(recall, len(each.recalls))
        points.append(
            Point(
                kind="hnsw",
                passages=size,
                **_figures(each),
                ef_search=plan.ef_search if plan else None,
                m=order.m,
                ef_construction=order.ef_construction,
                recall=round(recall, 4),
                recall_low=round(low, 4),
                recall_high=round(high, 4),
                k=K,
                build_s=round(build_s, 2),
                size_bytes=size_bytes,
            )
        )
    scratch.drop_hnsw()
    return points


def _ask(scratch: Scratch, material: Material, plans: Sequence[SearchPlan | None]) -> list[_Times]:
    times = [_Times() for _ in plans]
    for measured in (False, True):
        for turn, question in enumerate(material.questions):
            found: dict[int, list[Any]] = {}
            for place in order_of(turn, len(plans)):
                before = scratch.cpu_s()
                found[place], ms = scratch.search(question, limit=LEG_CANDIDATES, plan=plans[place])
                if measured:
                    _note(times[place], ms, before, scratch.cpu_s())
            if measured:
                truth = set(found[0][:K])
                for place in range(1, len(plans)):
                    hit = len(truth & set(found[place][:K]))
                    times[place].recalls.append(hit / max(1, len(truth)))
    return times


def _note(times: _Times, ms: float, before: float | None, after: float | None) -> None:
    times.ms.append(ms)
    if before is None or after is None or times.cpu_s is None:
        times.cpu_s = None
    else:
        times.cpu_s += after - before


def _figures(times: _Times) -> dict[str, Any]:
    p50, p95 = np.percentile(times.ms, [50, 95])
    count = len(times.ms)
    cpu_s = times.cpu_s
    return {
        "searches": count,
        "p50_ms": round(float(p50), 3),
        "p95_ms": round(float(p95), 3),
        "mean_ms": round(float(np.mean(times.ms)), 3),
        "cpu_ms": None if cpu_s is None else round(cpu_s * 1000 / count, 3),
    }


def describe_machine() -> dict[str, Any]:
    """Where it was measured; the database may be on another machine, which it does not tell."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version'), "
            "(SELECT extversion FROM pg_extension WHERE extname = 'vector')"
        )
        postgres, pgvector = cursor.fetchone()
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "postgres": postgres,
        "pgvector": pgvector,
        "load_before": round(os.getloadavg()[0], 2),
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
