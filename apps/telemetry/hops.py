"""Measuring hops where they happen.

A `Trace` collects the hops of one answer or one ingestion in memory; `apps.telemetry.services`
stores them. Nothing that is recorded may hold tenant text.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from typing import Literal

from apps.telemetry.trace_context import child_of

Status = Literal["ok", "cached", "skipped", "degraded", "error"]
Attribute = int | float | str | bool

# The hops of each walk, in order; what reports list hops by.
WALKS: dict[str, tuple[str, ...]] = {
    "answer": (
        *("cache", "rewrite", "embed", "search", "rerank", "assemble", "generate", "stream"),
    ),
    "ingestion": ("receive", "parse", "chunk", "index"),
}


@dataclass(frozen=True)
class ModelUse:
    """What a hop had a model read: figures for whoever keeps accounts."""

    kind: Literal["embed", "rerank"]
    model: str  # as its server calls it
    tokens: int  # where cached: that would have been read
    total_ms: float
    estimated: bool = True  # counted here, for the server told nothing
    cache: str = "none"  # none, hit, miss, bypassed or error
    cache_reason: str = ""  # for bypassed
    saved_ms: float = 0.0
    error_code: str = ""  # "": it went well


@dataclass
class Hop:
    """One hop being measured, or measured."""

    name: str
    started_at: datetime
    status: Status = "ok"
    wait_ms: float = 0.0  # in a queue, before work began
    work_ms: float = 0.0
    error_code: str = ""
    attributes: dict[str, Attribute] = field(default_factory=dict)
    uses: list[ModelUse] = field(default_factory=list)

    def set(self, **attributes: Attribute) -> None:
        """Attach figures or identifiers; never text."""
        self.attributes.update(attributes)

    def used(self, use: ModelUse) -> None:
        """Note a model that was used; accounts are kept of it when the trace is recorded."""
        self.uses.append(use)

    def end_as(self, status: Status, error_code: str = "") -> None:
        """Say that the hop did not simply work."""
        self.status = status
        self.error_code = error_code


@dataclass
class Trace:
    """The hops of one answer or one ingestion."""

    tenant_id: uuid.UUID
    kind: Literal["answer", "ingestion"]
    trace_id: uuid.UUID = field(default_factory=uuid.uuid4)
    hops: list[Hop] = field(default_factory=list)
    # W3C `traceparent` of what this was asked by, and this trace's own, below which its hops are.
    parent: str = ""
    traceparent: str = ""
    # In whose name, and what for: "" says chat of an answer, ingestion of an ingestion.
    user_id: int | None = None
    key_id: uuid.UUID | None = None
    conversation_id: uuid.UUID | None = None
    collection_ids: tuple[uuid.UUID, ...] = ()
    request_id: uuid.UUID | None = None  # the gateway's, which its own calls are booked under
    source: Literal["", "chat", "api", "ingestion", "evaluation", "command"] = ""
    # Told when a hop starts (work_ms still 0) and when it has ended; from whichever thread it ran.
    listener: Callable[[Hop, Literal["started", "finished"]], None] | None = None
    # Called once the trace is stored, when nobody waits any more; what fails there is only logged.
    afterwards: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.traceparent = self.traceparent or child_of(self.parent, trace_id=self.trace_id)

    @contextmanager
    def hop(self, name: str, *, wait_ms: float = 0.0) -> Iterator[Hop]:
        """Measure a block as hop `name`. An exception marks it as an error and passes through."""
        hop = Hop(name, datetime.now(UTC), wait_ms=wait_ms)
        self.hops.append(hop)
        self._tell(hop, "started")
        start = perf_counter()
        try:
            yield hop
        except BaseException as exc:
            hop.end_as("error", str(getattr(exc, "code", None) or type(exc).__name__))
            raise
        finally:
            hop.work_ms = (perf_counter() - start) * 1000
            self._tell(hop, "finished")

    def _tell(self, hop: Hop, moment: Literal["started", "finished"]) -> None:
        if self.listener is not None:
            self.listener(hop, moment)
