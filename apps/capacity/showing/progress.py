"""How far a test is, from what its worker last wrote."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.capacity.models import LoadPoint
from apps.capacity.showing.rows import Whole
from apps.capacity.showing.words import load_words

_PURPOSES: dict[str, str] = {
    LoadPoint.Purpose.SELF_TEST: "the generator itself, against a server that answers at once",
    LoadPoint.Purpose.SWEEP: "the sweep",
    LoadPoint.Purpose.KNEE: "the search for the knee",
}


@dataclass(frozen=True)
class Progress:
    """`words` is what is measured now; `done` of about `of` points; None: not known."""

    words: str
    done: int
    of: int | None
    left_s: float | None
    requests: str  # of the point under way, "" where none is


def progress_of(whole: Whole) -> Progress:
    """What the row says, made safe: a worker of another version may have written it."""
    told = whole.test.progress if isinstance(whole.test.progress, Mapping) else {}
    of = _number(told.get("of"))
    return Progress(
        words=_what(told, whole),
        done=int(_number(told.get("done")) or 0),
        of=int(of) if of else None,
        left_s=_number(told.get("left_s")) or _number(told.get("seconds_left")),
        requests=_requests(told),
    )


def _what(told: Mapping[str, Any], whole: Whole) -> str:
    purpose = _PURPOSES.get(str(told.get("purpose")), "")
    load = _number(told.get("load"))
    if not purpose or load is None or purpose == _PURPOSES[LoadPoint.Purpose.SELF_TEST]:
        return purpose
    words = f"{purpose}, {load_words(load, whole.arrivals)}"
    repeat = _number(told.get("repeat"))
    return f"{words}, repeat {int(repeat) + 1}" if repeat is not None else words


def _requests(told: Mapping[str, Any]) -> str:
    sent, ended = _number(told.get("sent")), _number(told.get("ended"))
    if sent is None or ended is None:
        return ""
    failed = int(_number(told.get("failed")) or 0)
    warming = "warming up: " if told.get("warming_up") else ""
    return f"{warming}{int(sent):,} sent, {int(ended):,} ended, {failed:,} failed"


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
