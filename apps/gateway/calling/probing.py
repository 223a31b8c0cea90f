"""Looking at the upstreams, from a worker, every few seconds: well or not, and how loaded.

What is seen is kept in Redis for the page of operations. An upstream that is well again gets its
next trial at once, whatever its breaker's pause.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, TypeVar

from apps.gateway.calling import catalogue, slots
from apps.gateway.calling.exported import Exported, read_metrics
from apps.gateway.redis import PREFIX, client, translated
from apps.gateway.types import Upstream
from apps.inference import errors
from apps.inference.transport import Server, fetch_json, open_stream

T = TypeVar("T")

_PATIENCE_S = 4.0  # less than the time between two looks
_METRICS_BYTES_MAX = 1024 * 1024
_KEEP_S = 300


@dataclass(frozen=True)
class Seen:
    """One look at an upstream. None: the server does not tell."""

    at: datetime
    well: bool
    took_ms: float
    error_code: str = ""
    serves: str | None = None
    takes_at_once: int | None = None  # its own bound of concurrent requests
    context_tokens: int | None = None
    load: Exported = field(default_factory=Exported)


def seen_key(upstream: str) -> str:
    """JSON of what was last seen."""
    return f"{PREFIX}seen:{upstream}"


def look_at_all() -> None:
    """Look at every upstream of the catalogue, from synchronous code. Raises StoreDown."""
    asyncio.run(probe_all(catalogue.current().upstreams))


async def probe_all(upstreams: Iterable[Upstream]) -> None:
    """Look at all that are servers, side by side. Raises StoreDown."""
    await asyncio.gather(*(probe(one) for one in upstreams if one.kind != "local"))


async def probe(upstream: Upstream) -> Seen:
    """Look at one upstream and keep what is seen. Raises StoreDown."""
    server = Server(upstream.kind, upstream.url, upstream.key, timeout_s=_PATIENCE_S)
    began, at = perf_counter(), datetime.now(UTC)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await _ask_health(server, upstream)
    except (errors.InferenceError, TimeoutError) as exc:
        code = getattr(exc, "code", errors.TimedOut.code)
        seen = Seen(at, well=False, took_ms=_ms_since(began), error_code=code)
    else:
        took_ms = _ms_since(began)
        told, load = await asyncio.gather(
            _or({}, _told(server, upstream)), _or(Exported(), _load(server))
        )
        seen = Seen(at, well=True, took_ms=took_ms, load=load, **told)
    await _keep(upstream, seen)
    return seen


async def _keep(upstream: Upstream, seen: Seen) -> None:
    async with translated():
        text = json.dumps(asdict(seen), default=str)
        await client().set(seen_key(upstream.name), text, ex=_KEEP_S)
    if seen.well:
        await slots.let_try(upstream.name)


def parse_seen(text: bytes | str) -> Seen | None:
    """What `probe` kept; None where it is not readable."""
    with suppress(ValueError, TypeError, KeyError):
        fields: dict[str, Any] = json.loads(text)
        fields["at"] = datetime.fromisoformat(fields["at"])
        fields["load"] = Exported(**fields["load"])
        return Seen(**fields)
    return None


async def _ask_health(server: Server, upstream: Upstream) -> None:
    try:
        async with open_stream(server, "GET", f"{server.root}/health"):
            return
    except errors.Rejected:
        if upstream.kind != "openai":
            raise
    # Providers have no such route: being able to list models has to do.
    await fetch_json(server, "GET", f"{server.url}/models")


async def _told(server: Server, upstream: Upstream) -> dict[str, Any]:
    """What the server says it serves, and its bounds."""
    if upstream.kind == "openai":
        reply = await fetch_json(server, "GET", f"{server.url}/models")
        models = [entry for entry in reply["data"] if isinstance(entry, dict)]
        names = ", ".join(str(entry.get("id")) for entry in models[:3])
        more = f" and {len(models) - 3} more" if len(models) > 3 else ""
        context = models[0].get("max_model_len") if len(models) == 1 else None  # vLLM's
        return {"serves": (names + more)[:200], "context_tokens": _whole(context)}
    info = await fetch_json(server, "GET", f"{server.root}/info")
    context = info.get("max_total_tokens") or info.get("max_input_length")
    return {
        "serves": str(info["model_id"])[:200],
        "takes_at_once": _whole(info.get("max_concurrent_requests")),
        "context_tokens": _whole(context),
    }


async def _load(server: Server) -> Exported:
    body = b""
    async with open_stream(server, "GET", f"{server.root}/metrics") as response:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > _METRICS_BYTES_MAX:
                raise ValueError("too much to be metrics")
    return read_metrics(body.decode())


async def _or(otherwise: T, asking: Awaitable[T]) -> T:
    """What a server need not have, or has otherwise than expected, is not told."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await asking
    except (errors.InferenceError, TimeoutError, ValueError, KeyError, TypeError, AttributeError):
        return otherwise


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _ms_since(began: float) -> float:
    return (perf_counter() - began) * 1000
