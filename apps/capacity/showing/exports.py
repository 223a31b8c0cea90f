"""A test's points for programs: JSON in the names of vLLM's `bench serve`, and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from apps.capacity.load.measures import Figures, Percentiles, Record
from apps.capacity.showing.rows import Measured, Whole
from apps.capacity.showing.timelines import READ_MAX
from apps.capacity.showing.words import target_words

_TIMES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}  # ours, vLLM's
CSV_HEAD = (
    *("point", "purpose", "arrivals", "load", "repeat", "requests", "complete", "failed"),
    *("good", "good_share", "goodput_per_s", "offered_per_s", "requests_per_s"),
    *("output_per_s", "input_per_s", "prompt_tokens", "output_tokens", "cached_tokens"),
    *("cached_share", "duration_s", "concurrency_mean", "concurrency_max"),
)
_CLIENT = ("cpu_share", "lag_p99_ms", "late_p99_ms", "is_trustworthy")
_PERCENTILES = ("count", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")


def as_json(whole: Whole) -> dict[str, Any]:
    """The test: its conditions, its plan, its knee, and each point in vLLM's names."""
    test = whole.test
    return {
        "id": str(test.id),
        "name": test.name,
        "state": test.state,
        "created_at": test.created_at.isoformat(),
        "started_at": test.started_at.isoformat() if test.started_at else None,
        "finished_at": test.finished_at.isoformat() if test.finished_at else None,
        "target": target_words(whole.target),
        "conditions": test.conditions,
        "plan": test.plan,
        "workload": _without_rows(test.workload),
        "knee": whole.knee.model_dump(mode="json") if whole.knee else None,
        "points": [point_as_json(whole, point) for point in whole.points],
    }


def point_as_json(
    whole: Whole, point: Measured, records: Sequence[Record] | None = None
) -> dict[str, Any]:
    """One point as `vllm bench serve` writes a run; with `records` its lists of requests too.

    Times begin at the intended start, not when the request was sent: vLLM's begin there.
    """
    figures = point.figures
    is_closed = whole.plan is not None and whole.plan.arrivals == "closed"
    told: dict[str, Any] = {
        "point": point.number,
        "repeat": point.repeat,
        "model_id": whole.target.model if whole.target else "",
        "request_rate": None if is_closed else point.load,
        "max_concurrency": int(point.load) if is_closed else None,
        "duration": figures.duration_s,
        "completed": figures.complete,
        "failed": figures.failed,
        "num_prompts": figures.requests,
        "total_input_tokens": figures.prompt_tokens,
        "total_output_tokens": figures.output_tokens,
        "request_throughput": figures.requests_per_s,
        "request_goodput": figures.goodput_per_s,
        "output_throughput": figures.output_per_s,
        "total_token_throughput": figures.output_per_s + figures.input_per_s,
        "max_concurrent_requests": figures.concurrency_max,
        "errors_by_code": figures.errors,
        "cached_share": figures.cached_share,
        "client": figures.client.model_dump(),
    }
    for ours, theirs in _TIMES.items():
        told |= _percentiles(theirs, getattr(figures, ours))
    return told | (_lists(records) if records is not None else {})


def as_csv(whole: Whole) -> Iterator[str]:
    """A line a point, with a head; fields in the words and units of this page."""
    times = [f"{name}_{field}" for name in _TIMES for field in _PERCENTILES]
    yield _line([*CSV_HEAD, *times, *(f"client_{name}" for name in _CLIENT)])
    arrivals = whole.arrivals
    for point in whole.points:
        figures = point.figures
        head = [point.number, point.purpose, arrivals, point.load, point.repeat]
        rest = [getattr(figures, name) for name in CSV_HEAD[len(head) :]]
        client = [getattr(figures.client, name) for name in _CLIENT]
        yield _line([*head, *rest, *_all_times(figures), *client])


def _all_times(figures: Figures) -> Iterator[Any]:
    for name in _TIMES:
        found = getattr(figures, name)
        for field in _PERCENTILES:
            yield getattr(found, field) if found is not None else ""


def _percentiles(name: str, times: Percentiles | None) -> dict[str, float | None]:
    fields = {"mean": "mean_ms", "median": "p50_ms", "p95": "p95_ms", "p99": "p99_ms"}
    return {
        f"{called}_{name}_ms": getattr(times, field) if times else None
        for called, field in fields.items()
    }


def _lists(records: Sequence[Record]) -> dict[str, Any]:
    """One value a request, in order; seconds, as vLLM's."""
    return {
        "input_lens": [record.prompt_tokens for record in records],
        "output_lens": [record.output_tokens for record in records],
        "ttfts": [
            None if record.first_s is None else record.first_s - record.intended_s
            for record in records
        ],
        "itls": [
            [stop - start for start, stop in zip(r.pieces_s, r.pieces_s[1:], strict=False)]
            for r in records
        ],
        "errors": [record.error_code for record in records],
        "lists_cut": len(records) >= READ_MAX,
    }


def _without_rows(workload: Any) -> Any:
    """A trace may have 100,000 rows."""
    if not isinstance(workload, dict):
        return workload
    rows = workload.get("rows") or ()
    return {**workload, "rows": len(rows) if isinstance(rows, list | tuple) else 0}


def _line(values: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(["" if value is None else value for value in values])
    return out.getvalue()
