"""How the upstreams are, put together for the page of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from apps.gateway.calling.catalogue import Catalogue
from apps.gateway.calling.probing import Seen, parse_seen, seen_key
from apps.gateway.calling.slots import breaker_key, leases_key
from apps.gateway.redis import client, translated
from apps.gateway.types import Upstream

_PROTOCOLS = {
    "tgi": "Text Generation Inference",
    "openai": "OpenAI-compatible",
    "tei": "Text Embeddings Inference",
    "local": "in the site's own processes",
}


@dataclass(frozen=True)
class Breaker:
    """`closed`: calls go through; `open`: none do; `trial`: one may, or is under way."""

    state: Literal["closed", "open", "trial"] = "closed"
    failures: int = 0  # in a row
    next_trial_s: float = 0.0
    last_error: str = ""  # code of the last failure, whenever it was
    failed_at: datetime | None = None


@dataclass(frozen=True)
class UpstreamState:
    upstream: Upstream
    serves: tuple[str, ...]  # aliases of the models that are routed here
    held: int  # places taken, over all processes
    breaker: Breaker
    seen: Seen | None  # None: not looked at in the last minutes

    @property
    def protocol(self) -> str:
        """What is spoken with it, in words."""
        return _PROTOCOLS[self.upstream.kind]

    @property
    def percent(self) -> int:
        """Of its places, those that are taken."""
        return min(100, round(100 * self.held / self.upstream.max_concurrency))


async def read_states(catalogue: Catalogue) -> list[UpstreamState]:
    """All upstreams, in the catalogue's order. Raises StoreDown."""
    if not catalogue.upstreams:
        return []
    names = [upstream.name for upstream in catalogue.upstreams]
    async with translated(), client().pipeline(transaction=False) as pipe:
        seconds, micros = await client().time()
        now_ms = seconds * 1000 + micros // 1000
        for name in names:
            pipe.zcount(leases_key(name), now_ms, "+inf")
            pipe.hgetall(breaker_key(name))
            pipe.get(seen_key(name))
        replies = await pipe.execute()
    return [
        _state(upstream, catalogue, replies[3 * i : 3 * i + 3], now_ms)
        for i, upstream in enumerate(catalogue.upstreams)
    ]


def _state(
    upstream: Upstream, catalogue: Catalogue, told: Sequence[Any], now_ms: int
) -> UpstreamState:
    held, breaker, seen = told
    return UpstreamState(
        upstream=upstream,
        serves=tuple(
            model.alias
            for model in catalogue.models
            if any(route.upstream.name == upstream.name for route in model.routes)
        ),
        held=held,
        breaker=_breaker(breaker, now_ms),
        seen=parse_seen(seen) if seen else None,
    )


def _breaker(fields: Mapping[bytes, bytes], now_ms: int) -> Breaker:
    failed_at = fields.get(b"failed_at")
    open_until = fields.get(b"open_until")
    wait_s = (float(open_until) - now_ms) / 1000 if open_until else 0.0
    on_trial = float(fields.get(b"trial_until", 0)) > now_ms
    state: Literal["closed", "open", "trial"] = "closed"
    if open_until is not None:
        state = "trial" if on_trial or wait_s <= 0 else "open"
    return Breaker(
        state=state,
        failures=int(fields.get(b"failures", 0)),
        next_trial_s=max(0.0, wait_s),
        last_error=fields.get(b"code", b"").decode(),
        failed_at=datetime.fromtimestamp(float(failed_at) / 1000, UTC) if failed_at else None,
    )
