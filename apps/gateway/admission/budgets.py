"""Money a month and tokens a day, in PostgreSQL: reserved before they are used, settled after.

Synchronous. Counting itself is done by functions of the database (the gateway's migrations), so
that a reservation is one round trip: a caller's counters are raised in one fixed order, first
those of the money, and no two callers can take the same last of a budget.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db import connection
from django.utils import timezone

from apps.gateway.admission import notes, windows
from apps.gateway.admission.postgres import LOCK_TIMEOUT_MS, short_transaction, stored
from apps.gateway.admission.refusals import budget_exceeded
from apps.gateway.admission.selectors import COUNTED
from apps.gateway.admission.worst import MOST_TOKENS, WorstCase
from apps.gateway.alerting.refusing import note_refusal
from apps.gateway.calling import catalogue
from apps.gateway.ledger.booking import book, count_booked, entry_of
from apps.gateway.ledger.prices import PriceRule, cost_micros, price_in_force
from apps.gateway.models import LedgerEntry, Reservation
from apps.gateway.types import Call, Caller, Outcome, Usage
from apps.tenants.limits import LimitRule
from apps.tenants.models import Subject

# How long a reservation holds without a sign of life from its process; renewals come every 5 s.
LEASE_S = 60.0
# The counters of a caller, in the order in which the database raises them.
_COUNTERS = tuple(
    (measure, subject)
    for measure in ("micros", "tokens")
    for subject in (Subject.KEY, Subject.MEMBER, Subject.TENANT)
)


@dataclass(frozen=True)
class Hold:
    """A reservation that was made, and the windows that it was taken from."""

    id: uuid.UUID
    caller: Caller
    request_id: uuid.UUID
    month_start: datetime
    day_start: datetime
    reserved_at: datetime  # by the database's clock


@dataclass
class Settlement:
    """One call to be booked, exactly once, in however many attempts."""

    call: Call
    lost_is_left_out: bool = False  # of an earlier call of the same reservation
    was_swept: bool = False
    id: uuid.UUID = field(default_factory=uuid.uuid4)  # the ledger takes it once


def reserve(
    caller: Caller, request_id: uuid.UUID, worst: WorstCase, rules: Iterable[LimitRule]
) -> Hold:
    """Reserve the worst case under every rule; raises BudgetExceeded or StoreDown.

    Windows are told by the database's clock: a process whose own has jumped would find the empty
    ones of another month.
    """
    rules = tuple(rules)
    hold, refused = _try_to_reserve(caller, request_id, worst, rules, timezone.now())
    if (hold.month_start, hold.day_start) != _windows_of(caller, hold.reserved_at):
        if not refused:
            release(hold.id)
        hold, refused = _try_to_reserve(caller, request_id, worst, rules, hold.reserved_at)
    if refused:
        counter, now = _COUNTERS[refused - 1], hold.reserved_at
        of_money = counter[0] == "micros"
        needed = worst.micros if of_money else worst.tokens
        window = hold.month_start if of_money else hold.day_start
        note_refusal(caller.tenant_id, counter, needed, window, rules)
        raise budget_exceeded(counter, worst, rules, now, caller.time_zone)
    return hold


def _try_to_reserve(
    caller: Caller,
    request_id: uuid.UUID,
    worst: WorstCase,
    rules: tuple[LimitRule, ...],
    at: datetime,
) -> tuple[Hold, int]:
    """What would be held in the windows of `at`, and which counter refused it (from 1; 0: none)."""
    month, day = _windows_of(caller, at)
    reservation_id = uuid.uuid4()
    with stored(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT gateway_reserve(%s, %s, %s, %s, %s, %s, %s, %s, %s::bigint[],"
            " %s * interval '1 second', %s, %s::jsonb), now()",
            [
                reservation_id, caller.tenant_id, caller.user_id, caller.key_id, month, day,
                worst.micros, worst.tokens, _bounds(rules), LEASE_S, str(LOCK_TIMEOUT_MS),
                json.dumps(notes.pack_request(caller, request_id)),
            ],
        )  # fmt: skip
        refused, reserved_at = cursor.fetchone()
    return Hold(reservation_id, caller, request_id, month, day, reserved_at), refused


def _windows_of(caller: Caller, at: datetime) -> tuple[datetime, datetime]:
    """Begins of the month and of the day, where the tenant is."""
    return windows.month_start(at, caller.time_zone), windows.day_start(at, caller.time_zone)


def settle(hold: Hold, settlement: Settlement) -> int:
    """Book a call and move the counters, in one statement; the micros it cost.

    May be tried again after StoreDown: what turns out to have been committed is not done twice.
    Where the reservation has been swept, what the sweeper booked of the call is left out.
    """
    call, price = _plausible(settlement.call), _price_of(settlement.call)
    with stored():
        cost = _book(hold, call, price, settlement.id)
        if cost is not None:
            return cost
        settlement.was_swept = True
        if not settlement.lost_is_left_out:
            call = _beyond_what_was_lost(hold, call)
        cost = _book(hold, call, price, settlement.id, although_swept=True)
    return cost or 0


def release(reservation_id: uuid.UUID) -> None:
    """Give back what is still reserved; nothing is, where it was swept. Raises StoreDown.

    Nobody waits for the disk: a release that a crash of the database undoes is swept later.
    """
    with stored(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'off', true), gateway_release(%s)",
            [reservation_id],
        )


def renew(hold: Hold, call: Call | None) -> None:
    """Hold it for another lease, and keep the call in flight with it. Raises StoreDown."""
    noted = {} if call is None else {"call": notes.pack_call(_plausible(call))}
    with stored(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE gateway_reservation SET expires_at = now() + %s * interval '1 second',"
            " noted = noted || %s::jsonb WHERE id = %s",
            [LEASE_S, json.dumps(noted), hold.id],
        )


def book_unspent(caller: Caller, request_id: uuid.UUID, settlement: Settlement) -> None:
    """A ledger row for a call that spends nothing. May be tried again, like `settle`."""
    with short_transaction():
        call = _plausible(settlement.call)
        book(caller, request_id, call, None, settlement_id=settlement.id)


def settle_lost(row: Reservation) -> None:
    """Book the call of a reservation whose process died as lost, if one was noted.

    Within the sweeper's transaction, which holds the row.
    """
    caller, request_id = notes.unpack_request(row)
    call = notes.unpack_lost_call(row)
    if call is not None:
        hold = Hold(row.id, caller, request_id, row.month_start, row.day_start, row.started_at)
        _book(hold, call, _price_of(call), uuid.uuid4())


def tokens_counted(call: Call) -> int:
    """The tokens of a call that limits count: those that language models read and wrote."""
    by_language_model = call.hop in ("generate", "rewrite", "title")
    return _plausible(call).usage.total if by_language_model else 0


def _book(
    hold: Hold,
    call: Call,
    price: PriceRule | None,
    settlement_id: uuid.UUID,
    *,
    although_swept: bool = False,
) -> int | None:
    """The micros it cost; None, and nothing done, where the reservation has been swept."""
    cost = cost_micros(call.usage, price)
    entry = entry_of(hold.caller, hold.request_id, call, price, cost, settlement_id)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT gateway_book(%s, %s, %s, %s, %s::jsonb, %s, %s)",
            [
                hold.id, hold.month_start, hold.day_start, tokens_counted(call), entry,
                although_swept, str(LOCK_TIMEOUT_MS),
            ],
        )  # fmt: skip
        booked: int | None = cursor.fetchone()[0]
    if booked is not None:
        count_booked(hold.caller, call, booked)
    return booked


def _bounds(rules: Iterable[LimitRule]) -> list[int | None]:
    """The tightest bound of each counter; None where there is none."""
    tightest: dict[tuple[str, Subject], int] = {}
    for rule in rules:
        if rule.measure in COUNTED:
            counter = (COUNTED[rule.measure], rule.subject)
            tightest[counter] = min(rule.amount, tightest.get(counter, rule.amount))
    return [tightest.get(counter) for counter in _COUNTERS]


def _price_of(call: Call) -> PriceRule | None:
    if not call.upstream:
        return None
    with stored():
        prices = catalogue.current().prices
    return price_in_force(prices, call.upstream, call.upstream_model, timezone.now())


def _plausible(call: Call) -> Call:
    """The call with figures that can be counted, whatever an upstream said it had used."""
    usage = call.usage
    prompt, cached, output = (
        min(max(0, tokens), MOST_TOKENS)
        for tokens in (usage.prompt_tokens, usage.cached_tokens, usage.output_tokens)
    )
    told = Usage(prompt, min(cached, prompt), output, usage.estimated)
    return call if told == usage else replace(call, usage=replace(told, estimated=True))


def _beyond_what_was_lost(hold: Hold, call: Call) -> Call:
    """What the sweeper has not booked of a call whose process was only slow."""
    lost = (
        LedgerEntry.objects.filter(
            tenant_id=hold.caller.tenant_id,
            request_id=hold.request_id,
            hop=call.hop,
            outcome=Outcome.LOST,
            at__gte=hold.reserved_at,
        )
        .order_by("-id")
        .first()
    )
    if lost is None:
        return call
    prompt = max(0, call.usage.prompt_tokens - lost.prompt_tokens)
    cached = max(0, call.usage.cached_tokens - lost.cached_tokens)
    output = max(0, call.usage.output_tokens - lost.output_tokens)
    return replace(call, usage=Usage(prompt, min(cached, prompt), output, call.usage.estimated))
