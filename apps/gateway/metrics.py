"""The gateway's Prometheus counters, of this process.

Labels are aliases of models, names of upstreams and words of fixed sets: no tenant, person or key.
What is refused before it is a call has no row in the ledger; it is counted here.
"""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from apps.gateway.types import CacheResult, Call, Outcome, Source

_SECONDS = (0.005, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)

CALLS = Counter(
    "ragsite_gateway_calls",
    "Calls booked, by how they ended.",
    ["source", "hop", "model", "upstream", "outcome"],
)
TOKENS = Counter("ragsite_gateway_tokens", "Tokens booked.", ["model", "upstream", "kind"])
COST_MICROS = Counter("ragsite_gateway_cost_micros", "Cost booked.", ["model", "upstream"])
CACHE = Counter(
    "ragsite_gateway_cache",
    "What a cache did for a call, and why not.",
    ["hop", "result", "reason"],
)
SAVED_MICROS = Counter("ragsite_gateway_saved_micros", "Cost that caches saved.", ["hop"])
QUEUE_SECONDS = Histogram(
    "ragsite_gateway_queue_seconds",
    "Wait for a place at an upstream.",
    ["model", "upstream"],
    buckets=_SECONDS,
)
FIRST_TOKEN_SECONDS = Histogram(
    "ragsite_gateway_first_token_seconds",
    "From a call's begin to its first token, the queue included.",
    ["model", "upstream"],
    buckets=_SECONDS,
)
REFUSALS = Counter(
    "ragsite_gateway_refusals", "Requests refused by a limit or a store.", ["source", "code"]
)
RESPONSES = Counter(
    "ragsite_gateway_responses", "Answers below /v1/, by status.", ["route", "status"]
)


def count_call(source: Source, call: Call, cost_micros: int) -> None:
    """Count a call that has been booked."""
    where = (call.model, call.upstream)
    CALLS.labels(source, call.hop, *where, call.outcome).inc()
    if call.cache.result != CacheResult.NONE:
        CACHE.labels(call.hop, call.cache.result, call.cache.reason).inc()
        SAVED_MICROS.labels(call.hop).inc(call.cache.saved_micros)
    if not call.upstream:
        return
    TOKENS.labels(*where, "prompt").inc(call.usage.prompt_tokens)
    TOKENS.labels(*where, "cached").inc(call.usage.cached_tokens)
    TOKENS.labels(*where, "output").inc(call.usage.output_tokens)
    COST_MICROS.labels(*where).inc(cost_micros)
    if call.outcome == Outcome.LOST:
        return  # its times are unknown
    QUEUE_SECONDS.labels(*where).observe(call.queue_ms / 1000)
    if call.first_token_ms is not None:
        FIRST_TOKEN_SECONDS.labels(*where).observe(call.first_token_ms / 1000)


def count_refusal(source: Source, code: str) -> None:
    """Count a request that was not let through; `code` is its error's."""
    REFUSALS.labels(source, code).inc()


def count_response(route: str, status: int) -> None:
    """Count an answer of the API; `route` is the address's pattern, "other" where there is none."""
    RESPONSES.labels(route, str(status)).inc()
