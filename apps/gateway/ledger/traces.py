"""Ledger rows of the models that hops outside the gateway use: embedders and rerankers.

Written when the trace is recorded, in its transaction. Such a call is small and was not reserved:
its money is counted as used, and what comes next is refused where a budget is used up.
"""

from __future__ import annotations

from datetime import datetime

from django.db import connection
from django.utils import timezone

from apps.gateway.calling import catalogue
from apps.gateway.calling.own import (
    EMBEDDING_ALIAS,
    EMBEDDING_UPSTREAM,
    RERANKING_ALIAS,
    RERANKING_UPSTREAM,
)
from apps.gateway.ledger.booking import book
from apps.gateway.ledger.days import day_of, day_start, month_of
from apps.gateway.ledger.prices import PriceRule, cost_micros, price_in_force
from apps.gateway.types import CacheNote, CacheResult, Call, Caller, Outcome, Source, Usage
from apps.inference.errors import TimedOut
from apps.telemetry.hops import ModelUse, Trace
from apps.tenants.models import Tenant

_PLACES = {
    "embed": (EMBEDDING_ALIAS, EMBEDDING_UPSTREAM),
    "rerank": (RERANKING_ALIAS, RERANKING_UPSTREAM),
}


def book_uses(trace: Trace) -> None:
    """A row for each use of the trace, and its money in the caller's counters.

    Within the transaction of whoever records the trace.
    """
    caller = _caller(trace)
    request_id = trace.request_id or trace.trace_id
    now, prices = timezone.now(), catalogue.current().prices
    spent = 0
    for hop in trace.hops:
        for use in hop.uses:
            price = price_in_force(prices, _PLACES[use.kind][1], use.model, now)
            spent += book(caller, request_id, _call(use, price), price).cost_micros
    if spent:
        _count(caller, spent, now)


def _caller(trace: Trace) -> Caller:
    zones = Tenant.objects.filter(id=trace.tenant_id).values_list("time_zone", flat=True)
    usual = Source.INGESTION if trace.kind == "ingestion" else Source.CHAT
    return Caller(
        tenant_id=trace.tenant_id,
        time_zone=zones.first() or "UTC",
        source=Source(trace.source) if trace.source else usual,
        user_id=trace.user_id,
        key_id=trace.key_id,
        conversation_id=trace.conversation_id,
        collection_ids=trace.collection_ids,
    )


def _call(use: ModelUse, price: PriceRule | None) -> Call:
    """What was cached has read nothing, and saves what it would have cost."""
    alias, upstream = _PLACES[use.kind]
    cache, usage = CacheResult(use.cache), Usage(use.tokens, estimated=use.estimated)
    if cache is CacheResult.HIT:
        note = CacheNote(cache, "", cost_micros(usage, price), use.saved_ms)
        return Call(use.kind, alias, cache=note, total_ms=use.total_ms)
    return Call(
        hop=use.kind,
        model=alias,
        upstream=upstream,
        upstream_model=use.model,
        usage=usage,
        cache=CacheNote(cache, use.cache_reason),
        total_ms=use.total_ms,
        outcome=_outcome(use.error_code),
        error_code=use.error_code,
    )


def _outcome(error_code: str) -> Outcome:
    if not error_code:
        return Outcome.COMPLETE
    return Outcome.TIMED_OUT if error_code == TimedOut.code else Outcome.FAILED


def _count(caller: Caller, micros: int, now: datetime) -> None:
    month = month_of(now, caller.time_zone).begins
    day = day_start(day_of(now, caller.time_zone), caller.time_zone)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT gateway_count(%s, %s, %s, %s, %s, %s, 0, 0, 0, NULL)",
            [caller.tenant_id, caller.user_id, caller.key_id, month, day, micros],
        )
