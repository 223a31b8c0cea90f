"""Writing a call into the ledger. Synchronous, and within the caller's transaction."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial

from django.db import transaction

from apps.gateway.ledger.prices import PriceRule, cost_micros
from apps.gateway.metrics import count_call
from apps.gateway.models import LedgerEntry
from apps.gateway.types import Call, Caller


@dataclass(frozen=True)
class Booked:
    entry_id: int
    cost_micros: int


def book(caller: Caller, request_id: uuid.UUID, call: Call, price: PriceRule | None) -> Booked:
    """One row; `price` is the one in force for its upstream now, None where none is set."""
    cost = cost_micros(call.usage, price)
    usage, cache = call.usage, call.cache
    entry = LedgerEntry.objects.create(
        tenant_id=caller.tenant_id,
        user_id=caller.user_id,
        key_id=caller.key_id,
        conversation_id=caller.conversation_id,
        request_id=request_id,
        source=caller.source,
        hop=call.hop,
        model=call.model,
        upstream=call.upstream,
        upstream_model=call.upstream_model,
        collection_ids=sorted(caller.collection_ids),
        cache=cache.result,
        cache_reason=cache.reason,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        tokens_estimated=usage.estimated,
        cost_micros=cost,
        price_id=price.id if price else None,
        saved_micros=cache.saved_micros,
        saved_ms=cache.saved_ms,
        queue_ms=call.queue_ms,
        first_token_ms=call.first_token_ms,
        total_ms=call.total_ms,
        attempts=call.attempts,
        outcome=call.outcome,
        error_code=call.error_code,
    )
    transaction.on_commit(partial(count_call, caller.source, call, cost), robust=True)
    return Booked(entry.id, cost)
