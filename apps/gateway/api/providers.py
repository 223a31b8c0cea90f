"""Models that rooms above answer for, such as `rag/<collection>`: they register here.

The gateway knows nothing of what is behind them.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from apps.gateway.admission import Admission
from apps.gateway.types import CacheResult
from apps.inference.types import ChatTurn, GenerationEvent
from apps.tenants.models import ApiKey


@dataclass(frozen=True)
class Offered:
    """One model of a provider, as one key sees it."""

    names: tuple[str, ...]  # with the prefix; any of them finds it, the first is shown
    label: str
    created: int  # seconds since 1970
    collection_ids: tuple[uuid.UUID, ...] = ()


@dataclass(frozen=True)
class Served:
    """What a cache had to do with the answer: told before its text."""

    cache: CacheResult


@dataclass(frozen=True)
class Attached:
    """Fields beside the answer's text: of the last chunk, or of the message."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    cost_micros: int = 0


@dataclass(frozen=True)
class Asked:
    """What a provider is to answer: a conversation, the question last."""

    model: Offered
    turns: tuple[ChatTurn, ...]
    anew: bool = False  # the client wants no answer that was given before


ProviderEvent = GenerationEvent | Served | Attached


class Provider(Protocol):
    """Answers for every model whose name begins with its prefix."""

    prefix: str

    async def models(self, key: ApiKey) -> list[Offered]:
        """Those that `key` opens, by name."""
        ...

    async def find(self, key: ApiKey, name: str) -> Offered | None:
        """The model called `name`, if `key` opens it."""
        ...

    def answer(
        self, key: ApiKey, asked: Asked, admission: Admission
    ) -> AsyncGenerator[ProviderEvent, None]:
        """Served, TextDelta, one Attached, then one Finished.

        It reserves what it spends.
        """
        ...


_providers: dict[str, Provider] = {}


def register(provider: Provider) -> None:
    """Offer a provider's models; one of the same prefix is replaced."""
    _providers[provider.prefix] = provider


def provider_of(name: str) -> Provider | None:
    """Whoever answers for a model of this name."""
    return next((each for prefix, each in _providers.items() if name.startswith(prefix)), None)


def providers() -> tuple[Provider, ...]:
    return tuple(_providers.values())
