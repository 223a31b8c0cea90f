"""A long prompt dropped among answers: they stand still, the longer its slices the longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.capacity.failures.drawing import Drawing
from apps.capacity.failures.driving import drive, target_of
from apps.capacity.failures.engines import engine
from apps.capacity.failures.shown import Row, Shown, Stage, traced
from apps.capacity.failures.summing import gaps, percentile, times, told
from apps.capacity.load.measures import Record
from apps.capacity.load.types import Arrivals, Bounds, Job, TraceRow, Workload

STREAMS = 3
TITLE = "A long prompt among running answers"


@dataclass(frozen=True)
class _Size:
    slices: tuple[int, ...]  # prompt tokens read in one step
    prompt_tokens: int
    at_s: float
    stream_tokens: int


_FULL = _Size((512, 64, 16), 1400, 4.0, 330)
_QUICK = _Size((512, 16), 300, 1.0, 50)


def show(stage: Stage) -> Shown:
    """Three answers run, a long prompt comes; the same with each size of slice."""
    size = _QUICK if stage.is_quick else _FULL
    by_slice: dict[int, Sequence[Record]] = {}
    for tokens in size.slices:
        stage.tell(f"a prompt of {size.prompt_tokens:,} tokens in slices of {tokens}")
        options = ("--slots", str(STREAMS + 1), "--step-tokens", str(tokens))
        with engine(*options, log=stage.folder / "engine.log") as running:
            [driven] = drive(running, (0.0, _job(target_of(running), size)))
        by_slice[tokens] = driven.records
    arms = {tokens: arm_of(records) for tokens, records in by_slice.items()}
    figures = {"prompt_tokens": size.prompt_tokens, "streams": STREAMS, "slices": arms}
    return Shown(
        name="long-prompt",
        title=TITLE,
        sentences=sentences_of(figures),
        figures={**figures, "slices": {str(tokens): arm for tokens, arm in arms.items()}},
        table=_table(arms),
        chart=_chart(by_slice),
        trace=[
            line
            for tokens, records in by_slice.items()
            for line in traced(f"slices of {tokens}", records)
        ],
    )


def _job(target: Any, size: _Size) -> Job:
    stream = TraceRow(at_s=0.0, prompt_tokens=40, output_tokens=size.stream_tokens)
    long = TraceRow(at_s=size.at_s, prompt_tokens=size.prompt_tokens, output_tokens=8)
    return Job(
        target=target,
        workload=Workload(kind="trace", rows=(*[stream] * STREAMS, long)),
        arrivals=Arrivals(kind="trace", load=1.0),
        bounds=Bounds(duration_s=size.at_s + 1.0, warmup_requests=0),
        cross_check=0,
    )


def long_of(records: Sequence[Record]) -> Record:
    """The request with the longest prompt."""
    return max(records, key=lambda each: each.wanted_prompt_tokens)


def arm_of(records: Sequence[Record]) -> dict[str, Any]:
    """Gaps of the other streams before the long prompt was sent and until its first token."""
    long = long_of(records)
    sent, first = long.intended_s, long.first_s
    others = [gap for each in records if each is not long for gap in gaps(each)]
    begun = max((e.first_s for e in records if e is not long and e.first_s), default=0.0)
    before = [gap for at, gap in others if begun <= at - gap + 1e-9 and at <= sent]
    # A gap counts as of that time where a part of it lies in it.
    during = [gap for at, gap in others if first is not None and at > sent and at - gap < first]
    return {
        "long_ttft_s": None if first is None else first - sent,
        "long_prompt_tokens": long.prompt_tokens,
        "before": _summed(before),
        "during": _summed(during),
        "failed": sum(each.outcome != "complete" for each in records),
    }


def _summed(values: Sequence[float]) -> dict[str, Any]:
    return {
        "gaps": len(values),
        "p50_s": percentile(values, 50),
        "p95_s": percentile(values, 95),
        "max_s": max(values, default=None),
    }


def sentences_of(figures: dict[str, Any]) -> list[str]:
    """`figures["slices"]` in the order in which they were tried, the longest first."""
    arms = figures["slices"]
    lines = [_of_slice(tokens, arm, figures["streams"]) for tokens, arm in arms.items()]
    whole, finest = next(iter(arms)), list(arms)[-1]
    worst, best = arms[whole]["during"]["max_s"], arms[finest]["during"]["max_s"]
    calm = arms[whole]["before"]["max_s"]
    if None in (worst, best, calm):
        return [*lines, "Too little came back to compare: see the errors in the trace."]
    if worst < 2 * calm:
        lines.append("The failure did not show: no gap was twice as long as the longest before.")
    elif best < worst:
        lines.append(
            f"Slices of {finest} instead of {whole} tokens made the longest gap "
            f"{times(worst / best)} shorter."
        )
    else:
        lines.append(f"Slices of {finest} instead of {whole} tokens did not shorten the gaps.")
    return [*lines, *_cost(arms, whole, finest)]


def _of_slice(tokens: int, arm: dict[str, Any], streams: int) -> str:
    before, during = arm["before"], arm["during"]
    return (
        f"Slices of {tokens} tokens: between two pieces of the {streams} other answers it was "
        f"{told(before['p50_s'])} (p50) and at most {told(before['max_s'])} before; while the "
        f"prompt was read p95 {told(during['p95_s'])}, at most {told(during['max_s'])} "
        f"({during['gaps']} gaps). The long prompt's own first token came after "
        f"{told(arm['long_ttft_s'])}."
    )


def _cost(arms: dict[int, dict[str, Any]], whole: int, finest: int) -> list[str]:
    paid, was = arms[finest]["long_ttft_s"], arms[whole]["long_ttft_s"]
    if not paid or not was:
        return []
    if paid <= was:
        return [f"It cost the long prompt nothing: {told(paid)} instead of {told(was)}."]
    return [f"It cost the long prompt {told(paid - was)}: {told(paid)} instead of {told(was)}."]


def _table(arms: dict[int, dict[str, Any]]) -> list[Row]:
    head = ("slice, tokens", "gap p50 before", "longest before", "gap p50 during", "p95 during")
    rows: list[Row] = [(*head, "longest during", "TTFT of the long prompt")]
    for tokens, arm in arms.items():
        before, during = arm["before"], arm["during"]
        cells = (before["p50_s"], before["max_s"], during["p50_s"], during["p95_s"])
        rows.append((str(tokens), *map(told, (*cells, during["max_s"], arm["long_ttft_s"]))))
    return rows


def _chart(by_slice: dict[int, Sequence[Record]]) -> str:
    summary = (
        "Each dot is a piece of another answer: when it came, and how long after the piece before. "
        "In the band the long prompt is being read. One panel for each size of its slices."
    )
    drawing = Drawing(TITLE, summary)
    points = {tokens: _points(records) for tokens, records in by_slice.items()}
    right = max((at for each in points.values() for at, _ in each), default=1.0)
    top = max((gap for each in points.values() for _, gap in each), default=1.0)
    across = None
    for kind, (tokens, records) in enumerate(by_slice.items()):
        drawing.y += 18
        drawing.text(24, drawing.y, f"slices of {tokens} tokens: gap, seconds", bold=True)
        across, down = drawing.panel(120, (0.0, right), (0.0, top))
        long = long_of(records)
        if long.first_s is not None:
            left, width = across(long.intended_s), across(long.first_s) - across(long.intended_s)
            drawing.box(left, down(top), width, down(0) - down(top), "#fff1e5")
        for at, gap in points[tokens]:
            drawing.mark(across(at), down(gap), kind)
    if across is not None:
        drawing.below(across, "seconds since the begin")
    return drawing.svg()


def _points(records: Sequence[Record]) -> list[tuple[float, float]]:
    long = long_of(records)
    return [gap for each in records if each is not long for gap in gaps(each)]
