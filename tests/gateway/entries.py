"""Ledger rows for tests: made one by one, or many of every kind."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from apps.gateway.models import LedgerEntry

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def entry(tenant_id: uuid.UUID, at: datetime = NOON, **changes: Any) -> LedgerEntry:
    """A generated answer of 100 + 10 tokens that cost 250 micros."""
    fields = {
        "source": "chat",
        "hop": "generate",
        "model": "small",
        "upstream": "alpha",
        "prompt_tokens": 100,
        "output_tokens": 10,
        "cost_micros": 250,
        "price_id": 1,
        "outcome": "complete",
        **changes,
    }
    return LedgerEntry(tenant_id=tenant_id, at=at, **fields)


def booked(tenant_id: uuid.UUID, at: datetime = NOON, **changes: Any) -> LedgerEntry:
    """The same, in the ledger."""
    made = entry(tenant_id, at, **changes)
    made.save(force_insert=True)
    return made


def medley(
    tenant_id: uuid.UUID, count: int, *, seed: int = 0, begin: datetime = NOON, hours: int = 100
) -> Iterator[LedgerEntry]:
    """Rows of every kind, spread over `hours`; the same for the same seed."""
    draw = Random(seed)  # noqa: S311 - not for secrets
    collections = [uuid.UUID(int=n) for n in range(1, 4)]
    conversations = [uuid.UUID(int=draw.getrandbits(128)) for _ in range(max(1, count // 8))]
    for _ in range(count):
        hop = draw.choice(["generate", "generate", "rewrite", "embed", "rerank"])
        cost = draw.randrange(10**6)
        yield entry(
            tenant_id,
            begin + timedelta(seconds=draw.randrange(hours * 3600)),
            user_id=draw.choice([None, 1, 2, 3]),
            key_id=draw.choice([None, None, uuid.UUID(int=7)]),
            conversation_id=draw.choice([None, *draw.sample(conversations, 1)]),
            source=draw.choice(["chat", "api", "ingestion"]),
            hop=hop,
            model=draw.choice(["small", "large"]),
            upstream=draw.choice(["", "alpha", "beta"]),
            collection_ids=draw.choice([[], collections[:1], collections[1:2], collections]),
            cache=draw.choice(["none", "hit", "semantic", "shared", "miss", "error"]),
            prompt_tokens=draw.randrange(5000),
            cached_tokens=draw.randrange(100),
            output_tokens=draw.randrange(500),
            tokens_estimated=draw.random() < 0.1,
            cost_micros=cost,
            price_id=draw.choice([None, 1]),
            saved_micros=draw.randrange(1000),
            saved_ms=draw.random() * 1000,
            queue_ms=draw.random() * 10,
            first_token_ms=draw.choice([None, draw.random() * 300]),
            total_ms=draw.random() * 3000,
            outcome=draw.choice(["complete", "complete", "stopped", "failed", "timed_out", "lost"]),
        )
