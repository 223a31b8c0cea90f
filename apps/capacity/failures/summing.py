"""Sums over records that several failures need. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from apps.capacity.load.measures import Record


def percentile(values: Sequence[float], share: float) -> float | None:
    """Linear between the two nearest, as everywhere here; None of nothing."""
    return float(np.percentile(values, share)) if len(values) else None


def ttft_s(record: Record) -> float | None:
    """first - intended: None where nothing came."""
    return None if record.first_s is None else record.first_s - record.intended_s


def gaps(record: Record) -> list[tuple[float, float]]:
    """(when the later piece came, gap before it), seconds."""
    return [(later, later - earlier) for earlier, later in pairwise(record.pieces_s)]


def told(seconds: float | None) -> str:
    """A time in words: milliseconds below a second; "-" for none."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio < 10 else f"{ratio:.0f} times"
