"""What a run has to reach, as a command's option says it: `ndcg@10=.73`, `bm25:recall@50=.9`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.evals.metrics import METRICS, STAGES


@dataclass(frozen=True)
class Gate:
    """A metric of a stage (empty: the last one) that is to be at least so high."""

    stage: str
    metric: str
    at_least: float

    def value(self, run_stages: list[str], figures: Mapping[str, Any]) -> float | None:
        """What the run got; None where it did not measure that."""
        stage = self.stage or run_stages[-1]
        found = figures["stages"].get(stage, {}).get(self.metric)
        return None if found is None else float(found)


def parse_gate(text: str) -> Gate:
    """Raises ValueError with what is wrong."""
    named, equals, least = text.partition("=")
    stage, colon, metric = named.rpartition(":")
    if (colon and stage not in STAGES) or metric.casefold() not in METRICS or not equals:
        raise ValueError(
            f"{text!r} is not a metric and what it is to reach, such as ndcg@10=.73 or "
            f"bm25:recall@50=.9. Metrics: {', '.join(METRICS)}."
        )
    try:
        number = float(least)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise ValueError(f"{text!r}: {least!r} is not a number from 0 to 1.")
    return Gate(stage, metric.casefold(), number)
