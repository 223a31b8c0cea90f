"""A span for each request that is let in or refused, between its caller's and what it leads to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter

from apps.gateway.types import Caller
from apps.telemetry.trace_context import child_of
from apps.telemetry.tracing import Ended, export


@contextmanager
def traced(name: str, caller: Caller, request_id: uuid.UUID) -> Iterator[Caller]:
    """The caller, as of within a span called `name`, which is sent when the block has ended.

    Without tracing it is the caller as it was.
    """
    place = child_of(caller.traceparent, trace_id=request_id)
    started_at, began = datetime.now(UTC), perf_counter()
    error_code = ""
    try:
        yield replace(caller, traceparent=place)
    except BaseException as exc:
        error_code = str(getattr(exc, "code", None) or type(exc).__name__)
        raise
    finally:
        export(
            Ended(
                name=name,
                place=place,
                parent=caller.traceparent,
                kind="server",
                started_at=started_at,
                total_ms=(perf_counter() - began) * 1000,
                error_code=error_code,
                attributes={
                    "ragsite.tenant": str(caller.tenant_id),
                    "ragsite.key": str(caller.key_id),
                    "ragsite.request": str(request_id),
                },
            )
        )
