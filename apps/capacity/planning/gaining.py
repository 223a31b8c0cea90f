"""What is said of a technique."""

from __future__ import annotations

from dataclasses import dataclass

from apps.capacity.arithmetic.derived import Derived


@dataclass(frozen=True, slots=True)
class Gain:
    """One technique. `value` None: only a measurement tells."""

    name: str
    what: str  # it does, in plain words
    value: Derived | None
    verdict: str  # what it means for this plan
    backfires: str
    reverses: str  # what would turn the verdict round, with its threshold
