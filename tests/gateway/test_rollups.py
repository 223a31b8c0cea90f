"""Rollups say what the ledger says, to the micro, at every moment."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction

from apps.gateway.ledger import rollups, selectors, summing
from apps.gateway.ledger.selectors import Period
from apps.gateway.ledger.verifying import verify
from apps.gateway.models import (
    EVERYBODY,
    LedgerConversation,
    LedgerDay,
    LedgerEntry,
    LedgerHour,
    RollupMark,
)
from apps.gateway.tasks import roll_up_task
from apps.tenants.models import Tenant
from tests.gateway.entries import NOON, booked, entry, medley
from worker.celery import MAINTENANCE, app

pytestmark = pytest.mark.django_db
MARCH = Period(date(2026, 3, 1), date(2026, 3, 31))


@pytest.fixture
def acme() -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme", time_zone="Asia/Kathmandu")


def many(tenant_id: uuid.UUID, count: int = 300, seed: int = 0) -> list[LedgerEntry]:
    return LedgerEntry.objects.bulk_create(medley(tenant_id, count, seed=seed))


def figures(tenant_id: uuid.UUID | None, time_zone: str) -> list[Any]:
    """Everything that the selectors say of a period that cuts through the rows."""
    period = Period(date(2026, 3, 11), date(2026, 3, 13), time_zone)
    dimensions: tuple[selectors.Dimension, ...] = (
        *("day", "tenant", "model", "user", "key", "collection", "source", "upstream", "hop"),
    )
    return [
        selectors.totals(tenant_id, period),
        *(selectors.by(tenant_id, period, dimension) for dimension in dimensions),
        selectors.caches(tenant_id, period),
        selectors.cache_days(tenant_id, period),
        selectors.per_unit(tenant_id, period),
        selectors.dearest(tenant_id, period),
        [row.id for row in selectors.rows(tenant_id, period)],
    ]


def everything(acme: Tenant) -> list[Any]:
    return [figures(acme.id, acme.time_zone), figures(None, "UTC")]


def lines() -> list[Any]:
    """The rollups as they are stored, but for their own ids."""
    found: list[Any] = []
    for table in (LedgerDay, LedgerHour, LedgerConversation):
        names = [field.name for field in table._meta.fields if field.name != "id"]
        found += sorted(map(str, table.objects.values_list(*names)))
    return found


def test_figures_are_the_same_before_during_and_after_a_rollup(acme: Tenant) -> None:
    many(acme.id)
    many(uuid.uuid4(), 100, seed=1)
    before = everything(acme)
    assert rollups.roll_up() == 400
    assert everything(acme) == before
    many(acme.id, 200, seed=2)
    tail = everything(acme)
    assert tail != before
    assert rollups.roll_up() == 200
    assert everything(acme) == tail


def test_the_clock_rolls_up_each_minute(acme: Tenant) -> None:
    name = roll_up_task.name
    (due,) = (each for each in app.conf.beat_schedule.values() if each["task"] == name)
    assert due["schedule"] == 60.0
    assert app.amqp.router.route({}, name)["queue"].name == MAINTENANCE
    many(acme.id, 10)
    roll_up_task()
    assert LedgerDay.objects.filter(tenant_id=acme.id, dimension="all").exists()


def test_a_rollup_reads_nothing_twice(acme: Tenant) -> None:
    many(acme.id)
    rollups.roll_up()
    stored = lines()
    assert rollups.roll_up() == 0
    assert lines() == stored


def test_a_long_pause_is_caught_up_in_pieces(acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    many(acme.id)
    rollups.roll_up()
    at_once = lines()
    rollups.rebuild()
    RollupMark.objects.update(upto_id=0)
    for table in (LedgerDay, LedgerHour, LedgerConversation):
        table.objects.all().delete()
    monkeypatch.setattr(summing, "BATCH", 70)
    assert rollups.roll_up() == 300
    assert lines() == at_once
    assert verify() == []
    rollups.rebuild()
    assert lines() == at_once


def test_what_is_derived_again_is_the_same(acme: Tenant) -> None:
    for seed in range(4):
        many(acme.id, 100, seed=seed)
        rollups.roll_up()
    step_by_step = lines()
    assert rollups.rebuild() == 400
    assert lines() == step_by_step


def test_every_dimension_adds_up_to_the_same_sum(acme: Tenant) -> None:
    many(acme.id)
    rollups.roll_up()
    for whose in (acme.id, EVERYBODY):
        sums: dict[str, int] = {}
        for line in LedgerDay.objects.filter(tenant_id=whose):
            sums[line.dimension] = sums.get(line.dimension, 0) + line.cost_micros
        assert len(sums) >= 9
        assert len(set(sums.values())) == 1


def test_hours_are_those_of_utc(acme: Tenant) -> None:
    booked(acme.id, datetime(2026, 3, 10, 18, 59, 59, tzinfo=UTC), cost_micros=1)
    booked(acme.id, datetime(2026, 3, 10, 19, tzinfo=UTC), cost_micros=2)
    rollups.roll_up()
    booked(acme.id, datetime(2026, 3, 10, 19, 30, tzinfo=UTC), cost_micros=4)
    hours = selectors.hours(acme.id, datetime(2026, 3, 10, 17, tzinfo=UTC), 4)
    assert [(hour.hour, sums.cost_micros) for hour, sums in hours] == [
        (17, 0),
        (18, 1),
        (19, 6),
        (20, 0),
    ]
    assert selectors.hours(None, datetime(2026, 3, 10, 17, tzinfo=UTC), 4) == hours


def test_a_tenant_that_moves_gets_its_days_anew(acme: Tenant) -> None:
    many(acme.id)
    rollups.roll_up()
    acme.time_zone = "Pacific/Pago_Pago"
    acme.save()
    at_once = figures(acme.id, acme.time_zone)  # before the roller has noticed
    assert rollups.roll_up() == 0
    assert figures(acme.id, acme.time_zone) == at_once
    stored = lines()
    rollups.rebuild()
    assert lines() == stored


def test_the_ledger_of_a_tenant_that_is_gone_is_kept(acme: Tenant) -> None:
    booked(acme.id)
    acme.delete()
    assert rollups.roll_up() == 1
    assert selectors.totals(None, MARCH).calls == 1
    rollups.rebuild()
    call_command("ledger", "verify", stdout=StringIO())


def test_verify_says_that_all_agree(acme: Tenant) -> None:
    many(acme.id)
    rollups.roll_up()
    many(acme.id, 10, seed=3)  # not yet in the rollups, which is no difference
    out = StringIO()
    call_command("ledger", "verify", stdout=out)
    assert "agree" in out.getvalue()


def _changed_line() -> None:
    line = LedgerDay.objects.filter(dimension="model").first()
    assert line is not None
    LedgerDay.objects.filter(id=line.id).update(cost_micros=line.cost_micros + 1)


def _lost_line() -> None:
    LedgerHour.objects.filter(dimension="all").order_by("id")[:1].get().delete()


def _invented_conversation() -> None:
    LedgerConversation.objects.create(
        tenant_id=EVERYBODY, day=date(2026, 1, 1), conversation_id=uuid.uuid4(), cost_micros=1
    )


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (_changed_line, "days"),
        (_lost_line, "hours"),
        (_invented_conversation, "conversations"),
    ],
)
def test_verify_finds_one_micro_and_rebuild_mends_it(
    acme: Tenant, damage: Callable[[], None], named: str
) -> None:
    many(acme.id)
    rollups.roll_up()
    damage()
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("ledger", "verify", stdout=out)
    assert named in out.getvalue()
    call_command("ledger", "rebuild", stdout=out)
    call_command("ledger", "verify", stdout=out)


@contextmanager
def another_connection() -> Iterator[None]:
    """For a thread: its connection is given back."""
    try:
        yield
    finally:
        connections.close_all()


def in_thread(work: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        with another_connection():
            work()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.django_db(transaction=True)
def test_a_settlement_under_way_is_waited_for_or_left_to_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its id is below the mark's: were it not waited for, it would be lost for ever."""
    monkeypatch.setattr(rollups, "_TRIES", 2)
    tenant_id = uuid.uuid4()
    written, may_end = threading.Event(), threading.Event()

    def settle_slowly() -> None:
        with transaction.atomic():
            booked(tenant_id)
            written.set()
            may_end.wait(30)

    slow = in_thread(settle_slowly)
    assert written.wait(30)
    with pytest.raises(rollups.Busy):
        rollups.roll_up()
    may_end.set()
    slow.join()
    booked(tenant_id)
    assert rollups.roll_up() == 2
    assert selectors.totals(tenant_id, MARCH).calls == 2


@pytest.mark.django_db(transaction=True)
def test_no_row_is_counted_twice_or_lost_while_threads_settle() -> None:
    tenants = [Tenant.objects.create(slug=f"t{n}", name=f"T{n}").id for n in range(3)]
    end = threading.Event()

    def settle(seed: int) -> Callable[[], None]:
        def work() -> None:
            for n, made in enumerate(medley(tenants[seed % 3], 60, seed=seed)):
                with transaction.atomic():
                    made.save(force_insert=True)
                    if n % 7 == 3:
                        transaction.set_rollback(True)  # an id that never comes to be

        return work

    def roll() -> None:
        while not end.is_set():
            try:
                rollups.roll_up()
            except rollups.Busy:
                continue

    rolling = [in_thread(roll) for _ in range(2)]
    settling = [in_thread(settle(seed)) for seed in range(4)]
    seen = [selectors.totals(None, MARCH).calls for _ in range(40)]
    for thread in settling:
        thread.join()
    end.set()
    for thread in rolling:
        thread.join()
    assert seen == sorted(seen)  # nothing that was seen goes away while the mark moves
    rollups.roll_up()
    assert selectors.totals(None, MARCH).calls == LedgerEntry.objects.count()
    assert RollupMark.objects.get().upto_id == LedgerEntry.objects.order_by("-id")[0].id
    call_command("ledger", "verify", stdout=StringIO())


@pytest.mark.django_db(transaction=True)
def test_a_reader_sees_the_same_while_everything_is_derived_again(acme: Tenant) -> None:
    many(acme.id, 500)
    rollups.roll_up()
    before = selectors.totals(acme.id, MARCH)
    rebuilding = in_thread(lambda: [rollups.rebuild() for _ in range(3)])
    while rebuilding.is_alive():
        assert selectors.totals(acme.id, MARCH) == before
    rebuilding.join()
    assert selectors.totals(acme.id, MARCH) == before


def test_a_clock_that_jumps_moves_no_row_out_of_the_rollups(acme: Tenant) -> None:
    booked(acme.id)
    rollups.roll_up()
    booked(acme.id, NOON - timedelta(days=3))
    booked(acme.id, NOON + timedelta(days=9000))
    assert selectors.totals(acme.id, MARCH).calls == 2
    assert rollups.roll_up() == 2
    assert selectors.totals(acme.id, MARCH).calls == 2
    rollups.rebuild()
    assert selectors.totals(acme.id, MARCH).calls == 2


def test_the_largest_figures_do_not_overflow(acme: Tenant) -> None:
    for _ in range(3):
        booked(acme.id, cost_micros=10**15, prompt_tokens=10**12)
    rollups.roll_up()
    assert selectors.totals(acme.id, MARCH).cost_micros == 3 * 10**15


def test_nothing_reads_the_whole_ledger_once_it_is_rolled_up(acme: Tenant) -> None:
    LedgerEntry.objects.bulk_create(entry(acme.id) for _ in range(2000))
    rollups.roll_up()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE gateway_ledgerentry")
    with connection.execute_wrapper(_no_sequential_scan):
        selectors.totals(acme.id, Period(MARCH.first, MARCH.last, acme.time_zone))
        selectors.totals(None, MARCH)


def _no_sequential_scan(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    if "UNION ALL" in sql:
        execute(f"EXPLAIN {sql}", params, many, context)
        plan = "\n".join(row[0] for row in context["cursor"].fetchall())
        assert "Seq Scan on gateway_ledgerentry" not in plan, plan
    return execute(sql, params, many, context)
