"""`make bench-ledger`: figures out of a large ledger, rolling it up, and what booking costs.

    python -m tests.bench.ledger                  a million rows
    python -m tests.bench.ledger --rows 100000    half a minute

90 days of 20 tenants, one of them with half of all. Prints p50 and p95 of each selector and of
all that a cost page and a cache page ask for together, with a minute of calls at 100 a second not
yet rolled up; the plan of the slowest statement; how long rolling up and deriving again take; and
settlements a second with and without the lock that rolling up needs. PostgreSQL is started for the
duration, without fsync: a commit costs nothing, so that the lock's share shows at its largest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Any

from apps.documents.management.terminal import table
from tests import parts

if TYPE_CHECKING:
    from apps.gateway.ledger.selectors import Dimension

DAYS, TENANTS, LARGE_USERS, USERS = 90, 20, 200, 20
TAIL_ROWS = 6_000  # a minute at 100 a second
BOOKING_S, BOOKING_THREADS = 4.0, 8
TARGET_P95_MS = 300.0
# Three rows a question, four questions a conversation; a conversation is one tenant's and one
# person's. Every second conversation is the large tenant's.
_FILL = """
    INSERT INTO gateway_ledgerentry (
        at, tenant_id, user_id, key_id, conversation_id, request_id, source, hop, model, upstream,
        upstream_model, collection_ids, cache, cache_reason, prompt_tokens, cached_tokens,
        output_tokens, tokens_estimated, cost_micros, price_id, saved_micros, saved_ms, queue_ms,
        first_token_ms, total_ms, attempts, outcome, error_code
    )
    SELECT at, (%(tenants)s::uuid[])[tenant], tenant * 1000 + h / 64 %% people,
        CASE WHEN source = 'api' THEN md5('key' || tenant || h %% 5)::uuid END,
        CASE WHEN source = 'chat' THEN md5('conversation' || c)::uuid END,
        md5('request' || i / 3)::uuid, source, hop, model,
        CASE WHEN cache IN ('hit', 'semantic', 'shared') THEN '' ELSE model || '-server' END, '',
        CASE WHEN h %% 10 = 0 THEN ARRAY[md5('a')::uuid, md5('b')::uuid]
             ELSE ARRAY[md5('collection' || tenant || h %% 6)::uuid] END,
        cache, CASE WHEN cache = 'bypassed' THEN 'history' ELSE '' END,
        prompt, 0, output, hop <> 'generate',
        CASE WHEN cache IN ('hit', 'semantic', 'shared') THEN 0 ELSE prompt / 6 + output END,
        CASE WHEN h %% 50 = 1 THEN NULL ELSE 1 END,
        CASE WHEN cache IN ('hit', 'semantic') THEN prompt / 6 ELSE 0 END, 0, random() * 20,
        CASE WHEN hop = 'generate' THEN 100 + random() * 400 END, random() * 4000, 1,
        CASE WHEN random() < 0.02 THEN 'failed' ELSE 'complete' END, ''
    FROM (
        SELECT *, CASE WHEN hop = 'generate'
                THEN (ARRAY['small', 'large', 'tgi', 'openai'])[1 + h / 128 %% 4]
                WHEN hop = 'embed' THEN 'embedding' ELSE 'reranker' END AS model,
            CASE WHEN hop <> 'generate' THEN 'none'
                WHEN chance < 0.15 THEN 'hit' WHEN chance < 0.18 THEN 'semantic'
                WHEN chance < 0.2 THEN 'shared' WHEN chance < 0.4 THEN 'bypassed'
                ELSE 'miss' END AS cache,
            CASE WHEN hop = 'generate' THEN (50 + random() * 400)::int ELSE 0 END AS output,
            CASE WHEN tenant = 1 THEN %(large_users)s ELSE %(users)s END AS people
        FROM (
            SELECT i, c, h, random() AS chance, (20 + random() * 3000)::int AS prompt,
                %(begins)s + (%(ends)s - %(begins)s) * (i::float / %(rows)s) AS at,
                CASE WHEN h %% 2 = 0 THEN 1 ELSE 2 + h / 2 %% (%(count)s - 1) END AS tenant,
                (ARRAY['embed', 'rerank', 'generate'])[1 + i %% 3] AS hop,
                CASE WHEN h %% 5 = 0 THEN 'api' ELSE 'chat' END AS source
            FROM generate_series(0, %(rows)s - 1) AS i,
                LATERAL (SELECT i / 12 AS c) AS conversations,
                LATERAL (SELECT abs(hashint4(c)::bigint) AS h) AS hashed
        ) AS calls
    ) AS entries
"""


@dataclass(frozen=True)
class Asked:
    """What is asked: in whose name, and each question with its name."""

    who: str
    questions: dict[str, Callable[[], object]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=30, help="times each figure is asked for")
    arguments = parser.parse_args()
    _set_up()
    try:
        _run(arguments.rows, arguments.repeats)
    finally:
        from django.db import connections

        connections["default"].close()
        connections["default"].close_pool()  # type: ignore[attr-defined]
        parts.pytest_unconfigure()


def _set_up() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragsite.settings")
    django.setup()
    from django.core.management import call_command

    call_command("prepare_database", verbosity=0)
    call_command("migrate", database="owner", verbosity=0)


def _run(rows: int, repeats: int) -> None:
    from apps.gateway.ledger import rollups
    from apps.gateway.ledger.verifying import verify

    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; {rows:,} rows")
    tenants = _tenants()
    now = datetime.now(UTC)
    _fill(tenants, rows, now - timedelta(days=DAYS), now - timedelta(minutes=1))
    _print_timed("all rolled up", rollups.roll_up)
    _print_timed("all derived again", rollups.rebuild)
    _vacuum()
    _fill(tenants, TAIL_ROWS, now - timedelta(minutes=1), now)
    asked = [
        _asked("a tenant", tenants[1]),
        _asked("the large tenant", tenants[0]),
        _asked("operations", None),
    ]
    print(f"\nwith {TAIL_ROWS:,} rows above the mark, of {DAYS} days:")
    slowest = _print_figures(asked, repeats)
    _print_timed(f"a minute's {TAIL_ROWS:,} rows rolled up", rollups.roll_up)
    _print_timed("rollups and counters verified", lambda: _none(verify()))
    _print_plan(slowest)
    _print_booking(tenants)
    print(f"\nload {os.getloadavg()[0]:.1f} after")


# --- The ledger ---------------------------------------------------------------------------------


def _tenants() -> list[uuid.UUID]:
    from apps.tenants.models import Tenant

    return [
        Tenant.objects.create(slug=f"t{n}", name=f"Tenant {n}", time_zone="Europe/Berlin").id
        for n in range(TENANTS)
    ]


def _fill(tenants: list[uuid.UUID], rows: int, begins: datetime, ends: datetime) -> None:
    from django.db import connection

    start = perf_counter()
    values = {"tenants": tenants, "count": TENANTS, "rows": rows, "begins": begins, "ends": ends}
    with connection.cursor() as cursor:
        cursor.execute(_FILL, {**values, "large_users": LARGE_USERS, "users": USERS})
    print(f"{rows:,} rows written in {perf_counter() - start:.1f} s", flush=True)


def _vacuum() -> None:
    """As autovacuum does by itself after so many rows."""
    from django.db import connections

    with connections["owner"].cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")


# --- Figures ------------------------------------------------------------------------------------


def _asked(who: str, tenant_id: uuid.UUID | None) -> Asked:
    """Each selector, and those that a page asks together."""
    from apps.gateway.ledger import selectors
    from apps.gateway.ledger.days import day_of

    zone = "UTC" if tenant_id is None else "Europe/Berlin"
    last = day_of(datetime.now(UTC), zone)
    period = selectors.Period(last - timedelta(days=DAYS - 1), last, zone)
    dimensions: list[Dimension] = ["day", "model", "user", "key", "collection", "source"]
    dimensions += ["upstream", "hop", "tenant"] if tenant_id is None else ["upstream", "hop"]
    one: dict[str, Callable[[], object]] = {
        "totals": lambda: selectors.totals(tenant_id, period),
        **{
            f"by {each}": lambda each=each: selectors.by(tenant_id, period, each)  # type: ignore[misc]
            for each in dimensions
        },
        "per_unit": lambda: selectors.per_unit(tenant_id, period),
        "dearest": lambda: selectors.dearest(tenant_id, period),
        "projection": lambda: tenant_id and selectors.projection(tenant_id, zone),
        "hours": lambda: selectors.hours(tenant_id, datetime.now(UTC) - timedelta(hours=47), 48),
        "caches": lambda: selectors.caches(tenant_id, period),
        "cache_days": lambda: selectors.cache_days(tenant_id, period),
        "rows, first 2,000": lambda: [
            next(rows) for rows in [selectors.rows(tenant_id, period)] for _ in range(2000)
        ],
    }
    one["by each of them"] = lambda: selectors.by_each(tenant_id, period, dimensions[1:])
    cost_page = ("by each of them", "by day", "per_unit", "dearest", "projection", "totals")
    together: dict[str, Callable[[], object]] = {
        "THE COST PAGE": lambda: [one[name]() for name in cost_page],
        "THE CACHE PAGE": lambda: [one[name]() for name in ("caches", "cache_days")],
    }
    return Asked(who, one | together)


def _print_figures(asked: list[Asked], repeats: int) -> Callable[[], object]:
    """p50 and p95 of each; the question that was slowest alone."""
    lines: list[tuple[str, ...]] = [("", *(f"{each.who} p50, p95 ms" for each in asked))]
    slowest: tuple[float, Callable[[], object]] = (0.0, lambda: None)
    for name in asked[0].questions | asked[-1].questions:
        cells = []
        for each in asked:
            question = each.questions.get(name)
            if question is None:
                cells.append("")
                continue
            p50, p95 = _percentiles(question, repeats)
            over = " OVER" if name.startswith("THE ") and p95 > TARGET_P95_MS else ""
            cells.append(f"{p50:.1f}, {p95:.1f}{over}")
            if not name.startswith("THE "):
                slowest = max(slowest, (p50, question), key=lambda found: found[0])
        lines.append((name, *cells))
    print("\n".join(table(lines, right=range(1, 1 + len(asked)))), flush=True)
    return slowest[1]


def _percentiles(question: Callable[[], object], repeats: int) -> tuple[float, float]:
    question()  # the first reads from disk
    taken = []
    for _ in range(repeats):
        start = perf_counter()
        question()
        taken.append((perf_counter() - start) * 1000)
    return statistics.median(taken), sorted(taken)[int(0.95 * (len(taken) - 1))]


def _print_timed(name: str, work: Callable[[], int]) -> None:
    start = perf_counter()
    count = work()
    print(f"{name}: {perf_counter() - start:.2f} s ({count:,})", flush=True)


def _none(found: list[Any]) -> int:
    """How many differ; the bench's rows were not settled, so that there are no counters."""
    return sum(difference.table != "counters" for difference in found)


def _print_plan(question: Callable[[], object]) -> None:
    from django.db import connection

    print("\nplan of the slowest:")
    with connection.execute_wrapper(_explained):
        question()


def _explained(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    if "gateway_ledger" in sql:
        execute(f"EXPLAIN (ANALYZE, BUFFERS) {sql}", params, many, context)
        for (line,) in context["cursor"].fetchall():
            print(f"  {line[:150]}")
    return execute(sql, params, many, context)


# --- Booking ------------------------------------------------------------------------------------


def _print_booking(tenants: list[uuid.UUID]) -> None:
    """Settlements a second, each in a transaction of its own, with a roller at work and without."""
    print(f"\nbooking by {BOOKING_THREADS} threads, {BOOKING_S:g} s each:")
    for name, locked in (("with the lock", True), ("without it", False), ("with the lock", True)):
        with _trigger(enabled=locked):
            rate, p50, p99 = _book(tenants, rolling=False)
        print(f"{name}: {rate:,.0f} a second, p50 {p50:.2f} ms, p99 {p99:.2f} ms", flush=True)
    rate, p50, p99 = _book(tenants, rolling=True)
    print(f"with a roller that never rests: {rate:,.0f} a second, p50 {p50:.2f}, p99 {p99:.2f} ms")


@contextmanager
def _trigger(*, enabled: bool) -> Iterator[None]:
    from django.db import connections

    with connections["owner"].cursor() as cursor:
        if not enabled:
            cursor.execute("ALTER TABLE gateway_ledgerentry DISABLE TRIGGER being_written")
        try:
            yield
        finally:
            cursor.execute("ALTER TABLE gateway_ledgerentry ENABLE TRIGGER being_written")


def _book(tenants: list[uuid.UUID], *, rolling: bool) -> tuple[float, float, float]:
    from django.db import connections, transaction

    from apps.gateway.ledger import rollups
    from apps.gateway.ledger.booking import book
    from apps.gateway.types import Call, Caller, Source, Usage

    end = threading.Event()
    taken: list[float] = []

    def settle(tenant_id: uuid.UUID) -> None:
        caller = Caller(tenant_id, "UTC", Source.API, user_id=1)
        call = Call("generate", "small", upstream="small-server", usage=Usage(1000, 0, 200))
        while not end.is_set():
            start = perf_counter()
            with transaction.atomic():
                book(caller, uuid.uuid4(), call, None)
            taken.append((perf_counter() - start) * 1000)
        connections.close_all()

    def roll() -> None:
        while not end.is_set():
            try:
                rollups.roll_up()
            except rollups.Busy:
                print("the roller gave up")
        connections.close_all()

    threads = [
        *(threading.Thread(target=settle, args=[each]) for each in tenants[:BOOKING_THREADS]),
        *([threading.Thread(target=roll)] if rolling else []),
    ]
    start = perf_counter()
    for thread in threads:
        thread.start()
    end.wait(BOOKING_S)
    end.set()
    elapsed = perf_counter() - start
    for thread in threads:
        thread.join()
    ordered = sorted(taken)
    return len(taken) / elapsed, statistics.median(taken), ordered[int(0.99 * (len(ordered) - 1))]


if __name__ == "__main__":
    main()
