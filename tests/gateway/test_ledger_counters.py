"""Counters that the ledger sets right, and a tenant that moves to begin its month anew."""

from __future__ import annotations

import threading
import uuid
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.utils import timezone

from apps.gateway.admission import budgets, windows
from apps.gateway.admission.budgets import Hold, Settlement
from apps.gateway.admission.worst import WorstCase
from apps.gateway.errors import BudgetExceeded
from apps.gateway.ledger import rollups
from apps.gateway.ledger.counters import recount
from apps.gateway.ledger.verifying import verify
from apps.gateway.models import BudgetCounter
from apps.tenants.limits import limits_for
from apps.tenants.models import Tenant
from apps.tenants.services.tenants import update_tenant
from tests.cast import Cast
from tests.gateway.spending import MONEY, a_micro_a_token, call_of, caller_of, limit

pytestmark = pytest.mark.django_db
# Their days and months begin at other moments than UTC's, whenever this runs.
ELSEWHERE = ("Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu", "Pacific/Marquesas")


@pytest.fixture(autouse=True)
def _prices(db: None) -> None:
    a_micro_a_token()


def reserve(tenant: Tenant, micros: int = 100, **more: object) -> Hold:
    caller = caller_of(tenant, **more)
    rules = limits_for(tenant.id, user_id=caller.user_id, key_id=caller.key_id)
    return budgets.reserve(caller, uuid.uuid4(), WorstCase(micros, micros), rules)


def spend(tenant: Tenant, micros: int, **more: object) -> None:
    hold = reserve(tenant, micros, **more)
    budgets.settle(hold, Settlement(call_of(micros)))
    budgets.release(hold.id)


def move(cast: Cast, time_zone: str) -> Tenant:
    return update_tenant(
        tenant=cast.acme,
        name="Acme",
        time_zone=time_zone,
        ops_may_read_text=False,
        actor=cast.alice,
    )


def used(tenant: Tenant) -> dict[str, int]:
    """Of each running counter of money, by subject."""
    counters = BudgetCounter.objects.filter(
        tenant_id=tenant.id,
        measure="micros",
        window_start=windows.month_start(timezone.now(), tenant.time_zone),
    )
    return {each.subject: each.used for each in counters}


def test_a_tenant_that_moves_takes_what_it_has_spent_with_it(cast: Cast) -> None:
    limit(cast.acme, MONEY, 150)
    spend(cast.acme, 100, user_id=cast.bob.id)
    for time_zone in ELSEWHERE:
        moved = move(cast, time_zone)
        assert used(moved) == {"tenant": 100, "member": 100}
        with pytest.raises(BudgetExceeded):
            reserve(moved, 100)


def test_after_a_move_counters_and_ledger_agree(cast: Cast) -> None:
    spend(cast.acme, 100, user_id=cast.bob.id)
    spend(cast.acme, 30, key_id=uuid.uuid4())
    for time_zone in ELSEWHERE:
        spend(move(cast, time_zone), 7, user_id=cast.bob.id)
        assert verify() == []


def test_what_was_in_flight_during_a_move_is_counted_by_the_next_rollup(cast: Cast) -> None:
    rollups.roll_up()
    spend(cast.acme, 10)
    rollups.roll_up()
    hold = reserve(cast.acme)
    moved = move(cast, "Asia/Kathmandu")
    budgets.settle(hold, Settlement(call_of(40)))
    budgets.release(hold.id)
    rollups.roll_up()
    assert used(moved) == {"tenant": 50}
    assert verify() == []


def test_reservations_survive_a_recount(cast: Cast) -> None:
    spend(cast.acme, 10)
    hold = reserve(cast.acme, 100)
    recount(cast.acme)
    counter = BudgetCounter.objects.get(tenant_id=cast.acme.id, measure="micros")
    assert (counter.used, counter.reserved) == (10, 100)
    budgets.release(hold.id)


@pytest.mark.parametrize("wrong", [0, 9, 11, 10**9])
def test_rebuild_mends_a_counter_that_differs(cast: Cast, wrong: int) -> None:
    spend(cast.acme, 10, user_id=cast.bob.id)
    BudgetCounter.objects.filter(measure="micros", subject="member").update(used=wrong)
    BudgetCounter.objects.filter(measure="tokens", subject="tenant").delete()
    out = StringIO()
    with pytest.raises(CommandError, match="2 lines"):
        call_command("ledger", "verify", stdout=out)
    call_command("ledger", "rebuild", stdout=out)
    call_command("ledger", "verify", stdout=out)
    assert used(cast.acme) == {"tenant": 10, "member": 10}


@pytest.mark.django_db(transaction=True)
def test_recounting_while_calls_settle_loses_none(cast: Cast) -> None:
    def settle() -> None:
        for _ in range(25):
            spend(cast.acme, 3, user_id=cast.bob.id)
        connections.close_all()

    threads = [threading.Thread(target=settle) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with transaction.atomic():
            recount(cast.acme)
    for thread in threads:
        thread.join()
    assert used(cast.acme) == {"tenant": 225, "member": 225}
    assert verify() == []
