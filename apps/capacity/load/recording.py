"""Records of requests: made from answers, written to and read from files."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from apps.capacity.errors import LoadTestError
from apps.capacity.load.answers import Answer
from apps.capacity.load.measures import Record
from apps.capacity.load.schedule import Wanted

Outcome = Literal["complete", "failed", "timed_out", "refused", "unsent"]

_TIMED_OUT = {"timeout", "drain"}
LINE_BYTES_MAX = 16 * 1024 * 1024


def record_of(
    number: int, intended_s: float, wanted: Wanted, answer: Answer | None, code: str, began: float
) -> Record:
    """One request's record; times of `answer` are made relative to `began`. None: never sent."""
    if answer is None:
        return Record(
            number=number,
            intended_s=intended_s,
            outcome="unsent",
            error_code=code,
            wanted_prompt_tokens=wanted.prompt_tokens,
            wanted_output_tokens=wanted.output_tokens,
        )

    def since(at: float | None) -> float | None:
        return None if at is None else round(at - began, 6)

    reported = answer.output_tokens is not None
    return Record.model_construct(
        number=number,
        intended_s=round(intended_s, 6),
        begun_s=since(answer.begun_s),
        sent_s=since(answer.sent_s),
        first_s=since(answer.first_s),
        last_s=since(answer.last_s),
        end_s=since(answer.end_s),
        outcome=_outcome(answer, code),
        error_code=code,
        prompt_tokens=answer.prompt_tokens or 0,
        output_tokens=answer.output_tokens if reported else answer.piece_count,
        cached_tokens=min(answer.cached_tokens or 0, answer.prompt_tokens or 0),
        cached_reported=answer.cached_tokens is not None,
        tokens_reported=reported,
        wanted_prompt_tokens=wanted.prompt_tokens,
        wanted_output_tokens=wanted.output_tokens,
        pieces_s=tuple(round(at - began, 6) for at in answer.pieces),
    )


def _outcome(answer: Answer, code: str) -> Outcome:
    """refused: the server said no before it said anything else."""
    if not code:
        return "complete"
    if code in _TIMED_OUT:
        return "timed_out"
    said_no = code.startswith(("http_", "in_band_", "connection_refused"))
    return "refused" if said_no and answer.first_s is None else "failed"


def write_records(records: Iterable[Record], path: Path) -> None:
    """JSON Lines, gzip; what is at its default is left out."""
    with gzip.open(path, "wt", compresslevel=6, encoding="utf-8") as file:
        for each in records:
            file.write(each.model_dump_json(exclude_defaults=True) + "\n")


def read_records(data: bytes, *, most: int = 100_000) -> Iterator[Record]:
    """The records that `write_records` wrote; raises LoadTestError for anything else."""
    import io

    try:
        with gzip.open(io.BytesIO(data), "rb") as file:
            for _ in range(most):
                line = file.readline(LINE_BYTES_MAX)
                if not line:
                    return
                yield Record.model_validate_json(line)
    except (OSError, EOFError, ValueError) as exc:
        raise LoadTestError("The requests' records cannot be read.") from exc
