"""What a server's own counters say of the time of a point, in words."""

from __future__ import annotations

from apps.capacity.load.measures import Figures
from apps.capacity.showing.words import figure, milliseconds

_NAMES = {
    "prompt_tokens": ("Prompt tokens that it read", "tokens"),
    "output_tokens": ("Tokens that it wrote", "tokens"),
    "prefix_hit_share": ("Of prompts’ tokens, found in its prefix cache", "share"),
    "queue_mean_ms": ("Mean wait in its queue", "ms"),
    "preemptions": ("Requests that it put off for want of memory", "times"),
    "prefill_s": ("Time spent reading prompts", "s"),
    "decode_s": ("Time spent writing", "s"),
    "decode_steps": ("Steps of the model", "times"),
}


def counter_rows(figures: Figures) -> list[tuple[str, str]]:
    """Those that are known, named. Other callers' requests are in them, too."""
    return [
        (name, _words(figures.server[key], unit))
        for key, (name, unit) in _NAMES.items()
        if key in figures.server
    ]


def _words(value: float, unit: str) -> str:
    if unit == "share":
        return f"{figure(100 * value)} %"
    if unit in ("ms", "s"):
        return milliseconds(value if unit == "ms" else 1000 * value)
    return f"{value:,.0f}"
