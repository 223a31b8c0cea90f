"""Whatever the order of reserving, settling, releasing and sweeping: counters are the ledger's
sums per window, to the micro."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Sum

from apps.gateway.admission import budgets
from apps.gateway.admission.budgets import Hold, Settlement
from apps.gateway.admission.sweeping import sweep
from apps.gateway.admission.worst import WorstCase
from apps.gateway.errors import BudgetExceeded
from apps.gateway.models import BudgetCounter, LedgerEntry, Reservation
from apps.gateway.types import Caller
from apps.tenants.limits import LimitRule
from apps.tenants.models import Measure, Subject
from tests.cast import Cast
from tests.gateway.spending import a_micro_a_token, call_of, caller_of

pytestmark = pytest.mark.django_db

BOUND = 3_000
RULES = tuple(
    LimitRule(uuid.UUID(int=i), subject, "", Measure.MICROS_PER_MONTH, amount, 80)
    for i, (subject, amount) in enumerate([(Subject.TENANT, BOUND), (Subject.MEMBER, 1_500)])
)


@dataclass
class Life:
    """Requests of some callers over some days, in random order."""

    callers: list[Caller]
    chance: random.Random
    now: datetime = datetime(2026, 10, 30, 20, tzinfo=UTC)
    holds: list[Hold] = field(default_factory=list)
    left_out: set[uuid.UUID] = field(default_factory=set)
    refused: int = 0

    def step(self) -> None:
        steps = [self.reserve, self.reserve, self.settle, self.settle, self.note, self.release]
        self.chance.choice([*steps, self.expire, self.pass_time])()

    def reserve(self) -> None:
        worst = WorstCase(self.chance.randrange(300), self.chance.randrange(300))
        caller = self.chance.choice(self.callers)
        try:
            self.holds.append(budgets.reserve(caller, uuid.uuid4(), worst, RULES))
        except BudgetExceeded:
            self.refused += 1

    def settle(self) -> None:
        if self.holds:
            hold = self.chance.choice(self.holds)
            call = call_of(
                self.chance.randrange(250), hop=self.chance.choice(["generate", "embed"])
            )
            settlement = Settlement(call, lost_is_left_out=hold.id in self.left_out)
            budgets.settle(hold, settlement)
            if settlement.was_swept:
                self.left_out.add(hold.id)

    def note(self) -> None:
        if self.holds:
            budgets.renew(self.chance.choice(self.holds), call_of(self.chance.randrange(200)))

    def release(self) -> None:
        if self.holds:
            budgets.release(self.holds.pop(self.chance.randrange(len(self.holds))).id)

    def expire(self) -> None:
        for hold in self.holds:
            if self.chance.random() < 0.3:
                long_ago = datetime(2020, 1, 1, tzinfo=UTC)
                Reservation.objects.filter(id=hold.id).update(expires_at=long_ago)
        sweep()

    def pass_time(self) -> None:
        self.now += timedelta(hours=self.chance.randrange(12))


@pytest.mark.parametrize("seed", range(3))
def test_counters_are_the_ledgers_sums(
    cast: Cast, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_micro_a_token()
    cast.acme.time_zone = "Asia/Kolkata"
    key = uuid.uuid4()
    callers = [caller_of(cast.acme, user_id=user.id) for user in (cast.alice, cast.bob)]
    callers.append(caller_of(cast.acme, key_id=key))
    life = Life(callers, random.Random(seed))  # noqa: S311 - a seed, not a secret
    # In the windows of a clock of its own: the database's stands still beside it.
    windows_of = budgets._windows_of
    monkeypatch.setattr(budgets, "_windows_of", lambda caller, at: windows_of(caller, life.now))
    made: dict[uuid.UUID, Hold] = {}
    for _ in range(150):
        life.step()
        made.update({hold.request_id: hold for hold in life.holds})
        agree(made)
    for hold in life.holds:
        budgets.release(hold.id)
    agree(made)
    assert not Reservation.objects.exists()
    assert BudgetCounter.objects.aggregate(Sum("reserved"))["reserved__sum"] == 0
    assert LedgerEntry.objects.exists()
    assert len({hold.day_start for hold in made.values()}) > 1


def agree(made: dict[uuid.UUID, Hold]) -> None:
    """Every counter is the sum of what its subject's rows of the ledger say, and of what its
    reservations hold."""
    used: Counter[tuple[object, ...]] = Counter()
    reserved: Counter[tuple[object, ...]] = Counter()
    for row in LedgerEntry.objects.all():
        hold = made[row.request_id]
        tokens = row.prompt_tokens + row.output_tokens if row.hop == "generate" else 0
        for counter, amount in of_each_subject(hold, row.cost_micros, tokens):
            used[counter] += amount
    for reservation in Reservation.objects.all():
        hold = made[uuid.UUID(reservation.noted["request"])]
        for counter, amount in of_each_subject(hold, reservation.micros, reservation.tokens):
            reserved[counter] += amount
    for found in BudgetCounter.objects.all():
        counter = (found.subject, found.subject_id, found.measure, found.window_start)
        assert (found.used, found.reserved) == (used.pop(counter, 0), reserved.pop(counter, 0))
    assert not +used
    assert not +reserved


def of_each_subject(hold: Hold, micros: int, tokens: int) -> list[tuple[tuple[object, ...], int]]:
    caller = hold.caller
    names = {"tenant": "", "member": caller.user_id, "key": caller.key_id}
    return [
        ((subject, str(name), measure, start), amount)
        for subject, name in names.items()
        if name is not None
        for measure, start, amount in (
            ("micros", hold.month_start, micros),
            ("tokens", hold.day_start, tokens),
        )
    ]
