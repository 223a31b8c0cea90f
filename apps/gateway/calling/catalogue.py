"""The models that are offered, the upstreams behind them, and what they cost.

Made of the settings and of what operations have configured. A process keeps a snapshot and reads
it anew when it is some seconds old.
"""

from __future__ import annotations

from dataclasses import dataclass

from apps.gateway.ledger.prices import PriceRule
from apps.gateway.types import Model, Upstream


@dataclass(frozen=True)
class Catalogue:
    models: tuple[Model, ...]  # of every kind, the default first
    upstreams: tuple[Upstream, ...]
    prices: tuple[PriceRule, ...]

    def find(self, alias: str, kind: str = "chat") -> Model:
        """The model called `alias`, or the first of its kind for ""; raises UnknownModel."""
        raise NotImplementedError


def current() -> Catalogue:
    """The catalogue, from synchronous code."""
    raise NotImplementedError


async def load() -> Catalogue:
    """The catalogue, from asynchronous code."""
    raise NotImplementedError
