"""Figures of hops."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from apps.telemetry.hops import Trace
from apps.telemetry.models import Span
from apps.telemetry.selectors import hop_percentiles, hops_of
from apps.telemetry.services import record_trace

pytestmark = pytest.mark.django_db
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def span(tenant_id: uuid.UUID, hop: str, work_ms: float, **changes: object) -> Span:
    fields = {
        "trace_id": uuid.uuid4(),
        "kind": "answer",
        "status": "ok",
        "started_at": datetime.now(UTC),
        **changes,
    }
    return Span.objects.create(tenant_id=tenant_id, hop=hop, work_ms=work_ms, **fields)


def test_a_traces_hops_come_in_order_and_of_its_tenant_only() -> None:
    trace = Trace(uuid.uuid4(), "answer")
    with trace.hop("embed"), trace.hop("search") as search:
        search.end_as("degraded", "embedder_down")
    record_trace(trace)
    span(uuid.uuid4(), "embed", 1, trace_id=trace.trace_id)
    hops = hops_of(trace.tenant_id, trace.trace_id)
    assert [(hop.hop, hop.status) for hop in hops] == [("embed", "ok"), ("search", "degraded")]


def test_percentiles_are_interpolated_and_shares_add_up() -> None:
    tenant_id = uuid.uuid4()
    for work_ms in (10, 20, 30, 40):
        span(tenant_id, "search", work_ms, wait_ms=work_ms / 10)
    span(tenant_id, "search", 50, status="error", wait_ms=5)
    (search,) = hop_percentiles("answer", LONG_AGO)
    assert (search.count, search.p50_ms) == (5, 30)
    assert search.p95_ms == pytest.approx(48)
    assert search.wait_p95_ms == pytest.approx(4.8)
    assert search.shares == {
        "ok": 0.8,
        "cached": 0.0,
        "skipped": 0.0,
        "degraded": 0.0,
        "error": 0.2,
    }


def test_skipped_hops_are_counted_but_do_not_flatter_the_percentiles() -> None:
    tenant_id = uuid.uuid4()
    for status, work_ms in (("ok", 30), ("skipped", 0), ("skipped", 0), ("degraded", 50)):
        span(tenant_id, "rerank", work_ms, status=status)
    span(tenant_id, "cache", 0, status="skipped")
    cache, rerank = hop_percentiles("answer", LONG_AGO)
    assert (rerank.count, rerank.p50_ms) == (4, 40)
    assert (cache.count, cache.p50_ms, cache.p95_ms) == (1, None, None)


def test_hops_come_in_the_order_of_the_walk() -> None:
    for hop in ("zebra", "stream", "embed", "cache"):
        span(uuid.uuid4(), hop, 1)
    assert [one.hop for one in hop_percentiles("answer", LONG_AGO)] == [
        "cache",
        "embed",
        "stream",
        "zebra",
    ]


def test_tenant_kind_and_time_narrow_the_figures() -> None:
    mine = uuid.uuid4()
    now = datetime.now(UTC)
    span(mine, "embed", 1)
    span(mine, "embed", 1, kind="ingestion")
    span(mine, "embed", 1, started_at=now - timedelta(hours=2))
    span(uuid.uuid4(), "embed", 1)
    (figures,) = hop_percentiles("answer", now - timedelta(hours=1), tenant_id=mine)
    assert figures.count == 1


def test_nothing_measured_gives_no_figures() -> None:
    assert hop_percentiles("answer", LONG_AGO) == []
