"""W3C trace context: whose child a span is, as the header `traceparent` carries it.

`00-<trace id, 32 hex digits>-<span id, 16>-<flags, 2>`; https://www.w3.org/TR/trace-context/.
"""

from __future__ import annotations

import re
import secrets
import uuid
from dataclasses import dataclass
from typing import Self

from django.conf import settings

_PATTERN = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
_CHANCE = 1 << 32  # of the trace id's last bits; in a UUID, bits further up are not random


@dataclass(frozen=True)
class Place:
    """One span's place in a trace."""

    trace_id: int
    span_id: int
    sampled: bool

    @classmethod
    def read(cls, traceparent: str) -> Self | None:
        """The place that a header names; None for anything that is not one."""
        found = _PATTERN.fullmatch(traceparent)
        if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
            return None
        trace_id, span_id, flags = (int(found[group], 16) for group in (2, 3, 4))
        return cls(trace_id, span_id, bool(flags & _SAMPLED)) if trace_id and span_id else None

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.sampled):02x}"


def is_on() -> bool:
    """Whether spans go anywhere."""
    return bool(settings.OTEL_EXPORTER_OTLP_ENDPOINT)


def child_of(traceparent: str, *, trace_id: uuid.UUID | None = None) -> str:
    """The place of a new span below `traceparent`, or of the first of a trace for "".

    A caller's decision whether to record holds. Without tracing it is the caller's own place:
    handed on, it still joins a model server's spans to theirs.
    """
    parent = Place.read(traceparent)
    if not is_on():
        return str(parent) if parent else ""
    if parent is None:
        number = (trace_id or uuid.uuid4()).int
        return str(Place(number, _new_span_id(), _is_taken(number)))
    return str(Place(parent.trace_id, _new_span_id(), parent.sampled))


def _is_taken(trace_id: int) -> bool:
    share: float = settings.OTEL_TRACES_SAMPLER_ARG
    return trace_id % _CHANCE < share * _CHANCE


def _new_span_id() -> int:
    return secrets.randbits(64) or 1  # 0 is no id
