"""What a test says in the end.

{"knee": `Knee` as JSON, of plans that look for one,
 "self_test": the generator at a server that answers at once, at the highest load:
    {"load", "requests", "failed", "ttft_p50_ms", "ttft_p99_ms", "itl_p99_ms", "cpu_share",
     "lag_p99_ms", "late_p99_ms", "is_trustworthy"},
 "points": how many were measured, the self-test left out,
 "untrustworthy": how many of them with a generator that was late,
 "ended": "" where all of the plan was done, else "out_of_time", "out_of_requests", "stopped",
 "message": what failed, in words}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.capacity.load.measures import Figures
from apps.capacity.loadtests.plan import Plan
from apps.capacity.loadtests.steps import Done, knee_so_far

_MESSAGE_CHARS = 500


def result_of(
    plan: Plan, done: Sequence[Done], *, ended: str = "", message: str = ""
) -> dict[str, Any]:
    """The result of these points; `ended` says why there are no more."""
    measured = [point for point in done if point.purpose != "self_test"]
    result: dict[str, Any] = {
        "points": len(measured),
        "untrustworthy": sum(not point.figures.client.is_trustworthy for point in measured),
        "ended": ended,
    }
    # Time and requests that have run out end a search only where it had not found its end.
    if (knee := knee_so_far(plan, done, stopped=ended)) is not None:
        result["knee"] = knee.model_dump(mode="json")
    for point in done:
        if point.purpose == "self_test":
            result["self_test"] = _self_test(point.load, point.figures)
    if message:
        result["message"] = message[:_MESSAGE_CHARS]
    return result


def _self_test(load: float, figures: Figures) -> dict[str, Any]:
    ttft, itl, client = figures.ttft, figures.itl, figures.client
    return {
        "load": load,
        "requests": figures.requests,
        "failed": figures.failed,
        "ttft_p50_ms": ttft.p50_ms if ttft else None,
        "ttft_p99_ms": ttft.p99_ms if ttft else None,
        "itl_p99_ms": itl.p99_ms if itl else None,
        "cpu_share": client.cpu_share,
        "lag_p99_ms": client.lag_p99_ms,
        "late_p99_ms": client.late_p99_ms,
        "is_trustworthy": client.is_trustworthy,
    }
