"""Storing what was measured and done."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from django.db import transaction

from apps.telemetry.hops import Trace
from apps.telemetry.metrics import HOP_SECONDS
from apps.telemetry.models import AuditEvent, Span
from apps.telemetry.tracing import export_trace

# Who keeps accounts of the models that hops have used. Rooms above add themselves when they load.
on_uses: list[Callable[[Trace], None]] = []


def record_trace(trace: Trace) -> None:
    """Store one span per hop, count each in the process's metrics, and send them as a trace.

    The models that were used are accounted for in the same transaction.
    """
    for hop in trace.hops:
        HOP_SECONDS.labels(trace.kind, hop.name, hop.status).observe(hop.work_ms / 1000)
    with transaction.atomic():
        _store_spans(trace)
        account_for(trace)
    export_trace(trace)
    for later in trace.afterwards:
        transaction.on_commit(later, robust=True)


def account_for(trace: Trace) -> None:
    """Have the models that were used accounted for, once; also of a trace that is not recorded."""
    if any(hop.uses for hop in trace.hops):
        with transaction.atomic():
            for keep_account in on_uses:
                keep_account(trace)


def _store_spans(trace: Trace) -> None:
    Span.objects.bulk_create(
        Span(
            tenant_id=trace.tenant_id,
            trace_id=trace.trace_id,
            kind=trace.kind,
            hop=hop.name,
            status=hop.status,
            started_at=hop.started_at,
            wait_ms=hop.wait_ms,
            work_ms=hop.work_ms,
            error_code=hop.error_code[:60],
            attributes=hop.attributes,
        )
        for hop in trace.hops
    )


def record_audit(
    *, action: str, tenant_id: uuid.UUID | None, actor_id: int | None, subject_id: object = ""
) -> None:
    """Note who did what to what. `subject_id` is an identifier, never text of a tenant."""
    AuditEvent.objects.create(
        tenant_id=tenant_id, actor_id=actor_id, action=action, subject_id=str(subject_id)[:60]
    )
