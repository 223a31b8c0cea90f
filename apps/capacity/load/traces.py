"""Traces out of files: JSON Lines with lengths and times of requests, in one of three forms.

    {"at_s": 0.5, "prompt_tokens": 900, "output_tokens": 120}           ours
    {"timestamp": 500, "input_length": 900, "output_length": 120}       Mooncake's; milliseconds
    {"t": 0.5, "in": 900, "out": 120}                                   seconds

Other fields are left aside: no text is taken out of a trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import orjson

from apps.capacity.errors import WorkloadInvalid
from apps.capacity.load.types import TraceRow

LINE_CHARS_MAX = 100_000  # Mooncake's rows with the hashes of their blocks are some kilobytes
TOKENS_MAX = 1_000_000
SECONDS_MAX = 366 * 86_400.0

# Names of the time, of a unit of it in seconds, of the prompt's and of the output's tokens.
_FORMS = (
    ("at_s", 1.0, "prompt_tokens", "output_tokens"),
    ("timestamp", 0.001, "input_length", "output_length"),
    ("t", 1.0, "in", "out"),
)


def parse_trace(lines: Iterable[str | bytes], *, most_rows: int = 100_000) -> tuple[TraceRow, ...]:
    """The rows in order of time, the first at 0 s. Empty lines are left aside.

    Raises WorkloadInvalid, with the number of the line, for anything else.
    """
    rows: list[TraceRow] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        if len(rows) == most_rows:
            raise WorkloadInvalid(f"Line {number}: a trace has at most {most_rows:,} requests.")
        rows.append(_row(number, text))
    if not rows:
        raise WorkloadInvalid("The trace is empty: a line is one request, as a JSON object.")
    rows.sort(key=lambda row: row.at_s)
    begin = rows[0].at_s
    return tuple(row.model_copy(update={"at_s": row.at_s - begin}) for row in rows)


def _row(number: int, text: str | bytes) -> TraceRow:
    if len(text) > LINE_CHARS_MAX:
        raise WorkloadInvalid(f"Line {number} is longer than {LINE_CHARS_MAX:,} characters.")
    try:
        told = orjson.loads(text)
    except ValueError as exc:
        raise WorkloadInvalid(f"Line {number} is not JSON.") from exc
    if not isinstance(told, dict):
        raise WorkloadInvalid(f"Line {number} is not a JSON object.")
    for at, unit_s, prompt, output in _FORMS:
        if prompt in told and output in told:
            return TraceRow.model_construct(
                at_s=_seconds(number, at, told.get(at, 0)) * unit_s,
                prompt_tokens=_tokens(number, prompt, told[prompt]),
                output_tokens=_tokens(number, output, told[output]),
            )
    raise WorkloadInvalid(
        f"Line {number} has no lengths: it needs prompt_tokens and output_tokens, input_length "
        "and output_length, or in and out."
    )


def _seconds(number: int, name: str, value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not math.isfinite(value) or not 0 <= value <= SECONDS_MAX * 1000:
        raise WorkloadInvalid(f"Line {number}: {name} is not a time from 0 on.")
    return float(value)


def _tokens(number: int, name: str, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= TOKENS_MAX:
        raise WorkloadInvalid(f"Line {number}: {name} is not a number from 1 to {TOKENS_MAX:,}.")
    return value
