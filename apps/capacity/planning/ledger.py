"""How long prompts and outputs have been and how often they came, out of the usage ledger.

Lengths and counts only; no text is read. `tenant_id` None is for operations: all tenants together.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.utils import timezone

# Newest rows that are looked at. 50,000 take some 0.1 s; a year of a busy site would take minutes.
MOST_ROWS = 50_000


@dataclass(frozen=True)
class Spread:
    """A distribution of token counts."""

    mean: float
    stdev: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True)
class LedgerDemand:
    """Answers that a model server wrote within a stretch of days that ends now.

    Not among them: answers out of a cache, for no model worked on them. Lengths are those of
    `complete` answers, for what was stopped or failed says nothing of how long it would have been.
    """

    days: int  # asked for
    since: datetime  # the first call that was looked at, and no earlier than the stretch
    calls: int  # that reached a model server, whatever became of them
    complete: int
    estimated: int  # of the complete, those whose tokens were counted here
    cached_answers: int  # left out
    prompt: Spread
    output: Spread
    prompt_tokens: int  # of complete answers whose tokens the server reported
    reused_tokens: int  # of those, found in the server's prefix cache, as it reported
    busiest_hour: datetime  # of UTC
    busiest_hour_calls: int
    is_cut: bool  # only the newest MOST_ROWS rows were looked at, and the stretch has more

    @property
    def measured_days(self) -> float:
        """How long a time the counts are of; at least an hour."""
        return max((timezone.now() - self.since) / timedelta(days=1), 1 / 24)

    @property
    def calls_a_day(self) -> float:
        return self.calls / self.measured_days

    @property
    def busiest_per_s(self) -> float:
        """Requests a second, averaged over the busiest hour: within it there are busier minutes."""
        return self.busiest_hour_calls / 3600

    @property
    def prefix_reuse(self) -> float | None:
        """Of the prompts' tokens, those that were reused; None without a reported one."""
        return self.reused_tokens / self.prompt_tokens if self.prompt_tokens else None


# A bounded number of rows by id, newest first, whatever the stretch: both keys exist as indexes.
_NEWEST = """
    SELECT id, at, hop, upstream, outcome, prompt_tokens, cached_tokens, output_tokens,
        tokens_estimated
    FROM gateway_ledgerentry {where} ORDER BY id DESC LIMIT %(most)s
"""
_QUERY = """
WITH newest AS MATERIALIZED ({newest}),
answers AS (
    SELECT *, outcome = 'complete' AND prompt_tokens > 0 AND output_tokens > 0 AS whole
    FROM newest WHERE hop = 'generate' AND at >= %(begins)s
),
served AS (SELECT * FROM answers WHERE upstream <> ''),
hours AS (
    SELECT date_trunc('hour', at, 'UTC') AS hour, count(*) AS calls
    FROM served GROUP BY 1 ORDER BY 2 DESC, 1 DESC LIMIT 1
)
SELECT count(*), count(*) FILTER (WHERE whole),
    count(*) FILTER (WHERE whole AND tokens_estimated),
    (SELECT count(*) FROM answers WHERE upstream = ''),
    {prompt}, {output},
    coalesce(sum(prompt_tokens) FILTER (WHERE whole AND NOT tokens_estimated), 0)::bigint,
    coalesce(sum(cached_tokens) FILTER (WHERE whole AND NOT tokens_estimated), 0)::bigint,
    (SELECT hour FROM hours), (SELECT calls FROM hours),
    (SELECT count(*) FROM newest), (SELECT min(at) FROM newest)
FROM served
"""
_SPREAD = """
    (avg({0}) FILTER (WHERE whole))::float8,
    coalesce(stddev_samp({0}) FILTER (WHERE whole), 0)::float8,
    percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY {0}) FILTER (WHERE whole)
"""


def read_demand(tenant_id: uuid.UUID | None, days: int) -> LedgerDemand | None:
    """What was asked in the last `days` days; None where no complete answer is among it."""
    begins = timezone.now() - timedelta(days=days)
    query = _QUERY.format(
        newest=_NEWEST.format(where="" if tenant_id is None else "WHERE tenant_id = %(tenant_id)s"),
        prompt=_SPREAD.format("prompt_tokens"),
        output=_SPREAD.format("output_tokens"),
    )
    values = {"tenant_id": tenant_id, "begins": begins, "most": MOST_ROWS}
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        row = cursor.fetchone()
    calls, complete, estimated, cached_answers, *rest = row
    if not complete:
        return None
    prompt, output = _spread(*rest[0:3]), _spread(*rest[3:6])
    prompt_tokens, reused, hour, hour_calls, looked_at, oldest = rest[6:]
    is_cut = looked_at >= MOST_ROWS and oldest > begins
    return LedgerDemand(
        days=days,
        since=max(oldest, begins),
        calls=calls,
        complete=complete,
        estimated=estimated,
        cached_answers=cached_answers,
        prompt=prompt,
        output=output,
        prompt_tokens=prompt_tokens,
        reused_tokens=min(reused, prompt_tokens),
        busiest_hour=hour,
        busiest_hour_calls=hour_calls,
        is_cut=is_cut,
    )


def _spread(mean: float, stdev: float, percentiles: list[float]) -> Spread:
    return Spread(mean, stdev, *percentiles)
