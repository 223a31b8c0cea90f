"""What is asked: made-up prompts of lengths that are chosen, replayed, or drawn from the ledger."""

from __future__ import annotations

import random
from collections.abc import Iterable

from django.db import connection

from apps.capacity.errors import WorkloadInvalid
from apps.capacity.load.traces import parse_trace
from apps.capacity.load.types import Lengths, TraceRow, Workload
from apps.tenants.models import Tenant

SAMPLE_MAX = 2000  # pairs: a job with them is 100 KB
DAYS_MAX = 366
TOKENS_MAX = 1_000_000
# Newest rows of the ledger that are looked at, as apps.capacity.planning.ledger does.
_ROWS_MAX = 50_000
_QUERY = """
    SELECT prompt_tokens, output_tokens FROM (
        SELECT at, hop, upstream, outcome, prompt_tokens, output_tokens
        FROM gateway_ledgerentry {where} ORDER BY id DESC LIMIT %(rows)s
    ) AS newest
    WHERE hop = 'generate' AND upstream <> '' AND outcome = 'complete'
        AND prompt_tokens BETWEEN 1 AND %(tokens)s AND output_tokens BETWEEN 1 AND %(tokens)s
        AND at >= now() - make_interval(days => %(days)s)
"""


def synthetic_workload(
    *,
    prompt: Lengths,
    output: Lengths,
    shared_prefix_tokens: int = 0,
) -> Workload:
    """Lengths around means."""
    return Workload(
        kind="synthetic",
        prompt=prompt,
        output=output,
        shared_prefix_tokens=shared_prefix_tokens,
        origin="made up",
    )


def trace_workload(
    lines: Iterable[str | bytes], *, name: str, keep_times: bool, shared_prefix_tokens: int = 0
) -> Workload:
    """A trace out of a file called `name`; without its times, lengths are drawn from it.

    Raises WorkloadInvalid.
    """
    rows = parse_trace(lines)
    return Workload(
        kind="trace" if keep_times else "lengths",
        rows=rows,
        shared_prefix_tokens=shared_prefix_tokens,
        origin=f"the trace {name[:100]}, {len(rows):,} requests",
    )


def ledger_workload(
    *, tenant: Tenant | None, days: int = 7, seed: int = 0, shared_prefix_tokens: int = 0
) -> Workload:
    """Lengths of complete answers that a model wrote for `tenant`, or for all, in so many days.

    At most SAMPLE_MAX, drawn at random by `seed`; an answer's two lengths stay together. No text is
    read. Raises WorkloadInvalid where there is none.
    """
    if not 1 <= days <= DAYS_MAX:
        raise WorkloadInvalid(f"Days are from 1 to {DAYS_MAX}.")
    found = _lengths(tenant, days)
    whose = f"the ledger of {tenant.name}" if tenant else "the ledger of all organisations"
    if not found:
        raise WorkloadInvalid(
            f"There is no complete answer in {whose} in the last {days} days. Take more days, or "
            "made-up lengths."
        )
    pairs = found
    if len(found) > SAMPLE_MAX:
        pairs = random.Random(seed).sample(found, SAMPLE_MAX)  # noqa: S311 - a sample
    drawn = f", {len(pairs):,} of them drawn" if len(pairs) < len(found) else ""
    return Workload(
        kind="lengths",
        rows=tuple(TraceRow(prompt_tokens=prompt, output_tokens=out) for prompt, out in pairs),
        shared_prefix_tokens=shared_prefix_tokens,
        origin=f"{whose[:120]}, {len(found):,} answers of {days} days{drawn}",
    )


def _lengths(tenant: Tenant | None, days: int) -> list[tuple[int, int]]:
    where = "" if tenant is None else "WHERE tenant_id = %(tenant_id)s"
    values = {
        "tenant_id": tenant.id if tenant else None,
        "rows": _ROWS_MAX,
        "tokens": TOKENS_MAX,
        "days": days,
    }
    with connection.cursor() as cursor:
        cursor.execute(_QUERY.format(where=where), values)
        return [(int(prompt), int(output)) for prompt, output in cursor.fetchall()]
