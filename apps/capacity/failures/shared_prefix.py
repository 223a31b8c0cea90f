"""One prefix before all prompts, with the prompt cache on and off: what a benchmark would say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.capacity.failures.drawing import Drawing
from apps.capacity.failures.driving import Driven, drive, target_of
from apps.capacity.failures.engines import Engine, engine
from apps.capacity.failures.shown import Row, Shown, Stage, traced
from apps.capacity.failures.summing import times, told
from apps.capacity.load.types import Arrivals, Bounds, Job, Lengths, Workload

TITLE = "One shared prefix, with the prompt cache on and off"


@dataclass(frozen=True)
class _Size:
    prompt_tokens: int
    prefix_tokens: int
    requests: int


@dataclass(frozen=True)
class _Arm:
    name: str
    caches: bool
    shares: bool


ARMS = (
    _Arm("shared prefix, cache on", caches=True, shares=True),
    _Arm("shared prefix, cache off", caches=False, shares=True),
    _Arm("own prefixes, cache on", caches=True, shares=False),
)
_FULL = _Size(460, 400, 12)
_QUICK = _Size(120, 90, 3)


def show(stage: Stage) -> Shown:
    """The same lengths three times, one request after another."""
    size = _QUICK if stage.is_quick else _FULL
    driven: dict[str, Driven] = {}
    with engine(log=stage.folder / "engine.log") as running:
        for arm in ARMS:
            stage.tell(f"{size.requests} prompts of {size.prompt_tokens} tokens: {arm.name}")
            [driven[arm.name]] = drive(running, (0.0, _job(running, arm, size)))
    figures = figures_of(driven)
    figures |= {"prompt_tokens": size.prompt_tokens, "prefix_tokens": size.prefix_tokens}
    return Shown(
        name="shared-prefix",
        title=TITLE,
        sentences=sentences_of(figures),
        figures=figures,
        table=_table(figures["arms"]),
        chart=_chart(figures),
        trace=[line for name, each in driven.items() for line in traced(name, each.records)],
    )


def _job(running: Engine, arm: _Arm, size: _Size) -> Job:
    return Job(
        target=target_of(running),
        workload=Workload(
            kind="synthetic",
            prompt=Lengths(mean=size.prompt_tokens),
            output=Lengths(mean=16),
            shared_prefix_tokens=size.prefix_tokens if arm.shares else 0,
        ),
        arrivals=Arrivals(kind="closed", load=1.0),
        bounds=Bounds(duration_s=120.0, requests=size.requests, warmup_requests=1),
        cross_check=0,
        cache_prompts=arm.caches,
    )


def figures_of(driven: Mapping[str, Driven]) -> dict[str, Any]:
    arms = {}
    for name, each in driven.items():
        figures = each.figures
        arms[name] = {
            "requests": figures.requests,
            "failed": figures.failed,
            "ttft_p50_s": figures.ttft.p50_ms / 1000 if figures.ttft else None,
            "input_per_s": figures.input_per_s,
            "output_per_s": figures.output_per_s,
            "prompt_tokens": figures.prompt_tokens,
            "cached_tokens": figures.cached_tokens,
            "cached_share": figures.cached_share,
        }
    return {"arms": arms}


def sentences_of(figures: dict[str, Any]) -> list[str]:
    arms = figures["arms"]
    lines = [_of_arm(name, arm) for name, arm in arms.items()]
    on, off, own = (arms[arm.name] for arm in ARMS)
    if not on["ttft_p50_s"] or not off["ttft_p50_s"] or not own["ttft_p50_s"]:
        return [*lines, "Too little came back to compare: see the errors in the trace."]
    ratio = off["ttft_p50_s"] / on["ttft_p50_s"]
    if ratio < 1.2:
        lines.append(
            f"The failure did not show: with the cache on, TTFT was {ratio:.2f} times better."
        )
        return lines
    read = on["input_per_s"] / off["input_per_s"]
    lines.append(
        f"A benchmark whose prompts all begin alike would call this server {times(ratio)} as fast "
        f"to the first token, and {times(read)} as fast in prompt tokens a second, as it is with "
        "prompts that it has not read before: the same server, the same lengths."
    )
    against = own["ttft_p50_s"] / off["ttft_p50_s"]
    share = own["cached_share"]
    lines.append(
        f"With prefixes of their own, as load tests here send them, TTFT with the cache on is "
        f"{against:.2f} times that with the cache off"
        + ("." if share is None else f", and {share:.0%} of the prompt tokens came from the cache.")
    )
    return lines


def _of_arm(name: str, arm: dict[str, Any]) -> str:
    cached = "the server told nothing of its cache"
    if arm["cached_share"] is not None:
        cached = f"{arm['cached_share']:.0%} of the prompt tokens were cached, as the server told"
    return (
        f"{name[0].upper()}{name[1:]}: first token after {told(arm['ttft_p50_s'])} (p50 of "
        f"{arm['requests']} requests, {arm['failed']} failed), {arm['input_per_s']:.0f} prompt and "
        f"{arm['output_per_s']:.1f} output tokens/s; {cached}."
    )


def _table(arms: dict[str, dict[str, Any]]) -> list[Row]:
    rows: list[Row] = [
        (
            "prompts",
            "requests",
            "failed",
            "TTFT p50",
            "prompt tokens/s",
            "output tokens/s",
            "cached",
        )
    ]
    for name, arm in arms.items():
        share = arm["cached_share"]
        rows.append(
            (
                *(name, str(arm["requests"]), str(arm["failed"]), told(arm["ttft_p50_s"])),
                *(f"{arm['input_per_s']:.0f}", f"{arm['output_per_s']:.1f}"),
                "-" if share is None else f"{arm['cached_tokens']:,} ({share:.0%})",
            )
        )
    return rows


def _chart(figures: dict[str, Any]) -> str:
    summary = (
        f"Time to the first token (p50) of prompts of {figures['prompt_tokens']} tokens, of which "
        f"{figures['prefix_tokens']} are the shared prefix. Same server, same lengths, one request "
        "after another."
    )
    drawing = Drawing(TITLE, summary)
    arms = figures["arms"]
    most = max((arm["ttft_p50_s"] or 0.0 for arm in arms.values()), default=0.0) or 1.0
    for kind, (name, arm) in enumerate(arms.items()):
        drawing.bar(name, arm["ttft_p50_s"] or 0.0, most, kind, words=_bar_words(arm))
    return drawing.svg()


def _bar_words(arm: dict[str, Any]) -> str:
    share = arm["cached_share"]
    cached = "" if share is None else f", {share:.0%} of the prompt cached"
    return f"{told(arm['ttft_p50_s'])}, {arm['input_per_s']:.0f} prompt tokens/s{cached}"
