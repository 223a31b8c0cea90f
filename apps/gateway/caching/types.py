"""What passes through the response cache."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from apps.gateway.types import CacheNote

E = TypeVar("E")


@dataclass(frozen=True)
class Cacheable:
    """A question, and everything else that its answer depends on."""

    question: str  # text, or the messages as JSON
    # JSON values: model, parameters, collections and their versions, whatever changes an answer.
    scope: Mapping[str, Any]
    comparable: bool = False  # whether its meaning may be compared: alone, without history
    bypass: str = ""  # why it must not be cached, a word of `policy.BYPASSES`; "" where it may


@dataclass(frozen=True)
class Made:
    """What an answer that was made cost, and how long it took: what a hit saves."""

    payload: Any  # JSON
    cost_micros: int
    total_ms: float


class Codec(Protocol[E]):
    """Events of an answer to what is stored, and back."""

    def encode(self, events: Sequence[E]) -> Made | None:
        """None where the answer must not be given again: an error, cut off, degraded."""
        ...

    def decode(self, payload: Any) -> list[E]:
        """The events to replay. Raises ValueError for what it cannot read."""
        ...


@dataclass
class CacheUse:
    """What the cache did, for the ledger and the span; filled as it goes."""

    note: CacheNote = field(default_factory=CacheNote)
    similarity: float | None = None


@dataclass(eq=False)
class Asker(Generic[E]):
    """Somebody who waits for an answer, and how it can be made in their name."""

    produce: Callable[[], AsyncGenerator[E, None]]
    codec: Codec[E]
    use: CacheUse
    position: int = 0  # events read so far, of an answer that several listen to
