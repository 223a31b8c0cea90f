"""Long sessions hold every slot: short requests wait, or their clients give up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.capacity.failures.drawing import Drawing
from apps.capacity.failures.driving import drive, target_of
from apps.capacity.failures.engines import Engine, engine
from apps.capacity.failures.overflowing import Answered, overflow_sentences, try_overflows
from apps.capacity.failures.shown import Row, Shown, Stage, traced
from apps.capacity.failures.summing import percentile, times, told, ttft_s
from apps.capacity.load.measures import Record
from apps.capacity.load.types import Arrivals, Bounds, Job, Lengths, TraceRow, Workload

SLOTS = 4
CLIENT_PATIENCE_S = 8.0
TITLE = "Long sessions hold all slots"


@dataclass(frozen=True)
class _Size:
    shorts_s: float  # how long short requests keep coming
    longs_at_s: float
    long_tokens: int


_FULL = _Size(50.0, 6.0, 240)
_QUICK = _Size(8.0, 2.0, 120)


def show(stage: Stage) -> Shown:
    """A short request a second, and four long sessions in their midst."""
    size = _QUICK if stage.is_quick else _FULL
    log = stage.folder / "engine.log"
    stage.tell(f"{SLOTS} slots, short requests, and {SLOTS} long sessions among them")
    with engine("--slots", str(SLOTS), "--slot-tokens", "1024", log=log) as running:
        jobs = (0.0, _shorts(running, size)), (size.longs_at_s, _longs(running, size))
        shorts, longs = drive(running, *jobs)
    stage.tell("prompts and answers beyond the context")
    answered = try_overflows(log)
    figures = figures_of(shorts.records, longs.records)
    figures["overflows"] = [each.as_json() for each in answered]
    return Shown(
        name="slots",
        title=TITLE,
        sentences=[*sentences_of(figures), *overflow_sentences(answered)],
        figures=figures,
        table=_table(figures, answered),
        chart=_chart(shorts.records, figures),
        trace=[*traced("short", shorts.records), *traced("long", longs.records)],
    )


def _shorts(running: Engine, size: _Size) -> Job:
    return Job(
        target=target_of(running),
        workload=Workload(kind="synthetic", prompt=Lengths(mean=45), output=Lengths(mean=6)),
        arrivals=Arrivals(kind="constant", load=1.0),
        bounds=Bounds(
            duration_s=size.shorts_s, warmup_requests=0, request_timeout_s=CLIENT_PATIENCE_S
        ),
        cross_check=0,
    )


def _longs(running: Engine, size: _Size) -> Job:
    rows = tuple(
        TraceRow(at_s=0.0, prompt_tokens=60, output_tokens=size.long_tokens) for _ in range(SLOTS)
    )
    return Job(
        target=target_of(running),
        workload=Workload(kind="trace", rows=rows),
        arrivals=Arrivals(kind="trace", load=1.0),
        bounds=Bounds(duration_s=1.0, warmup_requests=0, request_timeout_s=120.0),
        cross_check=0,
    )


def figures_of(shorts: Sequence[Record], longs: Sequence[Record]) -> dict[str, Any]:
    """Short requests by when they came: before all slots were held, while, and after.

    Held: from the last long session's first token to the first one's end.
    """
    begins = [each.first_s for each in longs if each.first_s is not None]
    ends = [each.end_s for each in longs if each.end_s is not None]
    is_held = len(begins) == len(longs) and bool(longs)
    sent, held_until = min((each.intended_s for each in longs), default=0.0), min(ends, default=0.0)
    held_from = max(begins, default=sent)
    phases = {
        "before": [each for each in shorts if each.intended_s < sent],
        "during": [each for each in shorts if sent <= each.intended_s < held_until],
        "after": [each for each in shorts if each.intended_s >= held_until],
    }
    return {
        "long_sessions": len(longs),
        "all_held": is_held and held_until > held_from,
        "sent_s": sent,
        "held_from_s": held_from,
        "held_until_s": held_until,
        "patience_s": CLIENT_PATIENCE_S,
        "phases": {name: _summed(records) for name, records in phases.items()},
    }


def _summed(records: Sequence[Record]) -> dict[str, Any]:
    waits = [wait for each in records if (wait := ttft_s(each)) is not None]
    codes = [each.error_code for each in records if each.outcome != "complete"]
    return {
        "requests": len(records),
        "complete": sum(each.outcome == "complete" for each in records),
        "errors": {code: codes.count(code) for code in sorted(set(codes))},
        "ttft_p50_s": percentile(waits, 50),
        "ttft_max_s": max(waits, default=None),
    }


def sentences_of(figures: dict[str, Any]) -> list[str]:
    before, during = figures["phases"]["before"], figures["phases"]["during"]
    after = figures["phases"]["after"]
    held_s = figures["held_until_s"] - figures["held_from_s"]
    lines = [
        f"{figures['long_sessions']} long sessions held all slots for {told(held_s)}."
        if figures["all_held"]
        else "The long sessions did not hold all slots at once."
    ]
    lines.append(
        f"Before, the first token of a short request came after {told(before['ttft_p50_s'])} "
        f"(p50 of {before['requests']}); meanwhile {during['complete']} of {during['requests']} "
        f"were answered, the first token after {told(during['ttft_p50_s'])} (p50) "
        f"and {told(during['ttft_max_s'])} (longest), of those where one came."
    )
    if before["errors"]:
        lines.append(
            f"But {sum(before['errors'].values())} of {before['requests']} failed before, too: the "
            "machine was too busy with other things to lay the rest to the long sessions alone."
        )
    lines.append(_of_errors(during["errors"], during["requests"], figures["patience_s"]))
    if during["ttft_p50_s"] and before["ttft_p50_s"]:
        ratio = during["ttft_p50_s"] / before["ttft_p50_s"]
        if ratio < 1.5 and not during["errors"]:
            lines.append("The failure did not show: short requests waited no longer than before.")
        elif during["complete"]:
            lines.append(f"Those that were answered waited {times(ratio)} as long (p50).")
    lines.append(
        f"After the first long session ended, it was {told(after['ttft_p50_s'])} (p50 of "
        f"{after['requests']}), {sum(after['errors'].values())} of them without an answer."
    )
    return lines


def _of_errors(errors: dict[str, int], requests: int, patience_s: float) -> str:
    if not errors:
        return "No short request was refused or given up: the server queues, it does not refuse."
    told_of = ", ".join(f"{count} with {code!r}" for code, count in errors.items())
    words = f"Of {requests} short requests meanwhile, {sum(errors.values())} failed: {told_of}."
    if set(errors) == {"timeout"}:
        words += f" The server refused none: the clients gave up after {patience_s:g} s."
    return words


def _table(figures: dict[str, Any], answered: Sequence[Answered]) -> list[Row]:
    head = ("short requests", "sent", "answered", "errors", "TTFT p50", "TTFT longest")
    rows: list[Row] = [head]
    for name, each in figures["phases"].items():
        errors = ", ".join(f"{count} {code}" for code, count in each["errors"].items()) or "none"
        rows.append(
            (
                *(name, str(each["requests"]), str(each["complete"]), errors),
                *(told(each["ttft_p50_s"]), told(each["ttft_max_s"])),
            )
        )
    return rows


def _chart(shorts: Sequence[Record], figures: dict[str, Any]) -> str:
    summary = (
        "Each dot is a short request: when it was sent, and how long its first token took. A cross "
        f"failed: its client gives up after {CLIENT_PATIENCE_S:g} s. In the band no slot is free."
    )
    drawing = Drawing(TITLE, summary)
    drawing.key(("answered", "given up or failed"))
    drawing.text(24, drawing.y + 10, "first token after, seconds", colour="#57606a")
    drawing.y += 10
    end = max((each.intended_s for each in shorts), default=1.0)
    top = max([CLIENT_PATIENCE_S, *(wait for e in shorts if (wait := ttft_s(e)) is not None)])
    across, down = drawing.panel(260, (0.0, end), (0.0, top))
    if figures["all_held"]:
        left, right = across(figures["held_from_s"]), across(figures["held_until_s"])
        drawing.box(left, down(top), right - left, down(0) - down(top), "#ffebe9")
    for each in shorts:
        wait = ttft_s(each)
        is_good = each.outcome == "complete" and wait is not None
        drawing.mark(
            across(each.intended_s), down(wait if is_good and wait else top), int(not is_good)
        )
    drawing.below(across, "when it was sent, seconds")
    return drawing.svg()
