"""What the form begins with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from apps.capacity.showing.words import figure
from apps.capacity.testing_forms.plans import LEAST_REQUESTS

# Small enough for the engine of one machine: SmolLM2-135M on two cores answers about one request a
# second of this size.
_LOADS = (0.5, 1.0, 2.0, 4.0)
_POINT_S = 30
_PROMISES = {"ttft_ms": 1500, "tpot_ms": 100}
_RATIOS = (0.25, 0.5, 1.0, 2.0)  # of a knee that is known
# Which fields of the address ("prefill") stand for which of the form.
PREFILLS = (
    *("prompt_mean", "prompt_stdev", "output_mean", "output_stdev"),
    *("ttft_ms", "tpot_ms", "e2e_ms"),
)


def beginning(*, knee: float | None, arrivals: str = "poisson") -> dict[str, Any]:
    """Loads around a knee that was found before; without one, those of a small engine."""
    known = knee if knee and math.isfinite(knee) and knee > 0 else None
    loads = [ratio * known for ratio in _RATIOS] if known else list(_LOADS)
    if arrivals == "closed" and known:
        loads = sorted({float(max(1, round(load))) for load in loads})
    words = ", ".join(figure(float(f"{load:.2g}")).replace(",", "") for load in loads)
    lasts_s = max(_POINT_S, math.ceil(1.5 * LEAST_REQUESTS / min(loads)))
    return {
        **_PROMISES,
        "loads": words,
        "arrivals": arrivals if known else "poisson",
        "duration_s": min(lasts_s, 3600),
    }


def prefilled(query: Mapping[str, str]) -> dict[str, str]:
    """What an address brings for the form: figures of a plan. What is no figure is left out."""
    found = {name: query[name] for name in PREFILLS if _is_figure(query.get(name, ""))}
    for name in ("prompt_mean", "output_mean"):
        if name in found:
            found[name] = str(max(1, round(float(found[name]))))
    return found


def _is_figure(words: str) -> bool:
    try:
        value = float(words)
    except ValueError:
        return False
    return len(words) < 30 and math.isfinite(value) and value >= 0
