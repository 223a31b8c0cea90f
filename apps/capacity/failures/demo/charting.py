"""The sweep as one picture: TTFT over the load, with the knee."""

from __future__ import annotations

from typing import Any

from apps.capacity.failures.drawing import QUIET, Drawing
from apps.capacity.models import LoadPoint, LoadTest

TITLE = "Time to the first token by load"


def knee_chart(test: LoadTest) -> str:
    """SVG; p50 and p95 of each point of the sweep and of the search, and where the knee lies."""
    points = [
        (point.load, ttft["p50_ms"] / 1000, ttft["p95_ms"] / 1000)
        for point in LoadPoint.objects.filter(test=test).exclude(purpose="self_test")
        if (ttft := point.figures.get("ttft"))
    ]
    drawing = Drawing(TITLE, _summary(test.result.get("knee") or {}))
    drawing.key(("p50, seconds", "p95, seconds"))
    right = max((load for load, _, _ in points), default=1.0)
    top = max((p95 for _, _, p95 in points), default=1.0)
    across, down = drawing.panel(240, (0.0, right), (0.0, top))
    for load, p50, p95 in points:
        drawing.mark(across(load), down(p50), 0)
        drawing.mark(across(load), down(p95), 1)
    knee = (test.result.get("knee") or {}).get("load")
    if knee is not None:
        drawing.line(across(knee), down(0), across(knee), down(top), QUIET, 2)
    drawing.below(across, "requests a second")
    return drawing.svg()


def _summary(knee: dict[str, Any]) -> str:
    if not knee.get("found") or knee.get("load") is None:
        return f"No knee was found ({knee.get('reason') or 'no result'})."
    words = f"The upright line is the knee: {knee['load']:.2g} requests a second"
    if knee.get("load_low") is None or knee.get("load_high") is None:
        return f"{words}."
    return f"{words}, 95 % interval {knee['load_low']:.2g} to {knee['load_high']:.2g}."
