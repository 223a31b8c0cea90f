"""Money a month and tokens a day: reserved, settled, released, to the micro."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.gateway.admission import budgets
from apps.gateway.admission.budgets import Hold, Settlement
from apps.gateway.admission.sweeping import sweep
from apps.gateway.admission.worst import WorstCase
from apps.gateway.errors import BadRequest, BudgetExceeded
from apps.gateway.models import BudgetCounter, LedgerEntry, Price, Reservation
from apps.gateway.types import CacheNote, CacheResult, Call, Outcome, Usage
from apps.tenants.limits import limits_for
from apps.tenants.models import Subject
from tests.cast import Cast
from tests.gateway.spending import (
    MONEY,
    TOKENS,
    a_micro_a_token,
    booked,
    call_of,
    caller_of,
    counted,
    let_expire,
    limit,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _prices(db: None) -> None:
    a_micro_a_token()


def reserve(cast: Cast, micros: int = 100, tokens: int = 100, **more: object) -> Hold:
    caller = caller_of(cast.acme, **more)
    rules = limits_for(cast.acme.id, user_id=caller.user_id, key_id=caller.key_id)
    return budgets.reserve(caller, uuid.uuid4(), WorstCase(micros, tokens), rules)


def settle(hold: Hold, tokens: int) -> int:
    return budgets.settle(hold, Settlement(call_of(tokens)))


def test_what_a_call_used_takes_the_place_of_what_was_reserved(cast: Cast) -> None:
    hold = reserve(cast)
    assert counted(cast.acme) == (0, 100)
    assert settle(hold, 30) == 30
    assert counted(cast.acme) == (30, 70)
    budgets.release(hold.id)
    assert counted(cast.acme) == (30, 0)
    assert counted(cast.acme, "tokens") == (30, 0)
    assert booked(cast.acme) == (30, 30)
    assert not Reservation.objects.exists()


def test_the_tenant_the_person_and_the_key_are_all_counted_without_any_limit(cast: Cast) -> None:
    key = uuid.uuid4()
    budgets.release(reserve(cast, user_id=cast.bob.id, key_id=key).id)
    places = BudgetCounter.objects.values_list("subject", "subject_id", "measure")
    assert set(places) == {
        (subject, name, measure)
        for measure in ("micros", "tokens")
        for subject, name in (("tenant", ""), ("member", str(cast.bob.id)), ("key", str(key)))
    }


def test_a_limit_set_later_counts_what_was_used_before(cast: Cast) -> None:
    settle(reserve(cast), 60)
    limit(cast.acme, MONEY, 140)
    with pytest.raises(BudgetExceeded):
        reserve(cast)


def test_several_calls_settle_under_one_reservation(cast: Cast) -> None:
    hold = reserve(cast)
    settle(hold, 30)
    settle(hold, 50)
    assert counted(cast.acme) == (80, 20)
    settle(hold, 50)
    assert counted(cast.acme) == (130, 0)
    budgets.release(hold.id)
    assert counted(cast.acme) == (130, 0)
    assert booked(cast.acme) == (130, 130)


def test_a_budget_can_be_used_to_its_last_micro_and_not_further(cast: Cast) -> None:
    limit(cast.acme, MONEY, 200)
    reserve(cast), reserve(cast)
    with pytest.raises(BudgetExceeded):
        reserve(cast, micros=1)
    reserve(cast, micros=0)


@pytest.mark.parametrize(
    ("subject", "measure", "words"),
    [
        (Subject.TENANT, MONEY, "your organisation's money for this month"),
        (Subject.MEMBER, MONEY, "your money for this month"),
        (Subject.KEY, TOKENS, "this key's tokens for today"),
        (Subject.TENANT, TOKENS, "your organisation's tokens for today"),
    ],
)
def test_a_refusal_names_the_limit_and_when_it_begins_anew(
    cast: Cast, subject: Subject, measure: str, words: str
) -> None:
    limit(cast.acme, measure, 150, subject)  # type: ignore[arg-type]
    key = uuid.uuid4()
    settle(reserve(cast, user_id=cast.bob.id, key_id=key), 77)
    with pytest.raises(BudgetExceeded) as refused:
        reserve(cast, user_id=cast.bob.id, key_id=key)
    assert refused.value.limit == words
    assert refused.value.resets_at is not None
    assert refused.value.retry_after_s > 0
    assert "begins anew on" in str(refused.value)
    # Nobody's figures: neither what was used nor what is left.
    assert "77" not in str(refused.value)
    assert "73" not in str(refused.value)


def test_a_request_above_the_whole_budget_is_told_so(cast: Cast) -> None:
    limit(cast.acme, MONEY, 99)
    with pytest.raises(BudgetExceeded, match="this request alone may need more than all of it"):
        reserve(cast)


def test_a_refusal_leaves_no_trace(cast: Cast) -> None:
    limit(cast.acme, TOKENS, 150)
    reserve(cast)
    before = list(BudgetCounter.objects.order_by("id").values())
    with pytest.raises(BudgetExceeded):
        reserve(cast, user_id=cast.bob.id, key_id=uuid.uuid4())
    assert list(BudgetCounter.objects.order_by("id").values()) == before
    assert Reservation.objects.count() == 1


def test_the_tighter_of_two_limits_on_the_same_counter_binds(cast: Cast) -> None:
    limit(cast.acme, MONEY, 1000)
    limit(cast.acme, MONEY, 50, Subject.MEMBER)
    limit(cast.acme, MONEY, 1000, Subject.MEMBER, str(cast.bob.id))
    reserve(cast, user_id=cast.bob.id)
    with pytest.raises(BudgetExceeded):
        reserve(cast, user_id=cast.alice.id)


def test_another_tenants_use_does_not_count(cast: Cast) -> None:
    limit(cast.acme, MONEY, 100)
    budgets.reserve(caller_of(cast.rival), uuid.uuid4(), WorstCase(100, 100), ())
    reserve(cast)
    assert counted(cast.rival) == (0, 100)
    assert counted(cast.acme) == (0, 100)


def test_more_than_was_reserved_is_booked_truthfully(cast: Cast) -> None:
    limit(cast.acme, MONEY, 100)
    hold = reserve(cast)
    settle(hold, 250)
    budgets.release(hold.id)
    assert counted(cast.acme) == (250, 0)
    assert booked(cast.acme) == (250, 250)
    with pytest.raises(BudgetExceeded):
        reserve(cast, micros=0)


def test_a_call_over_midnight_is_booked_in_the_window_it_was_taken_from(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = reserve(cast)
    windows = set(BudgetCounter.objects.values_list("window_start", flat=True))
    # What the clock says then does not matter: the windows are the reservation's.
    monkeypatch.setattr(budgets.timezone, "now", lambda: hold.reserved_at.replace(year=2040))
    settle(hold, 10)
    budgets.release(hold.id)
    assert set(BudgetCounter.objects.values_list("window_start", flat=True)) == windows
    assert counted(cast.acme) == (10, 0)


def test_a_release_comes_once(cast: Cast) -> None:
    hold, other = reserve(cast), reserve(cast)
    budgets.release(hold.id)
    budgets.release(hold.id)
    assert counted(cast.acme) == (0, 100)
    budgets.release(other.id)


def test_an_embedding_costs_money_and_no_tokens_of_language_models(cast: Cast) -> None:
    hold = reserve(cast)
    budgets.settle(hold, Settlement(call_of(40, hop="embed")))
    assert counted(cast.acme) == (40, 60)
    assert counted(cast.acme, "tokens") == (0, 100)


def test_a_cached_answer_is_a_row_and_moves_no_counter(cast: Cast) -> None:
    call = call_of(40, cache=CacheNote(CacheResult.HIT, saved_micros=40))
    budgets.book_unspent(caller_of(cast.acme), uuid.uuid4(), Settlement(call))
    assert LedgerEntry.objects.get().saved_micros == 40
    assert booked(cast.acme)[0] == 0
    assert counted(cast.acme) == (0, 0)


@pytest.mark.parametrize("tokens", [-5, 10**30])
def test_garbage_from_an_upstream_is_booked_within_reason(cast: Cast, tokens: int) -> None:
    hold = reserve(cast)
    usage = Usage(tokens, tokens, tokens)
    budgets.settle(hold, Settlement(call_of(0, usage=usage)))
    budgets.release(hold.id)
    row = LedgerEntry.objects.get()
    assert row.tokens_estimated
    assert row.prompt_tokens in (0, 10**12)
    assert counted(cast.acme)[0] == row.cost_micros


def test_absurd_worst_cases_are_refused() -> None:
    for micros, tokens in [(-1, 0), (0, -1)]:
        with pytest.raises(ValueError, match="less than nothing"):
            WorstCase(micros, tokens).check()
    for micros, tokens in [(10**16, 0), (0, 10**13), (2**64, 2**64)]:
        with pytest.raises(BadRequest):
            WorstCase(micros, tokens).check()
    WorstCase(10**15, 10**12).check()


def test_a_budget_of_the_largest_number_there_is_does_not_overflow(cast: Cast) -> None:
    limit(cast.acme, MONEY, 2**63 - 1)
    reserve(cast, micros=10**15, tokens=10**12)
    reserve(cast, micros=10**15, tokens=10**12)
    assert counted(cast.acme) == (0, 2 * 10**15)


def test_an_expired_reservation_is_booked_as_lost_from_what_was_noted(cast: Cast) -> None:
    hold = reserve(cast, user_id=cast.bob.id)
    settle(hold, 20)
    budgets.renew(hold, call_of(30))
    let_expire()
    assert sweep() == 1
    row = LedgerEntry.objects.get(outcome=Outcome.LOST)
    assert (row.cost_micros, row.tokens_estimated) == (30, True)
    assert (row.user_id, row.request_id) == (cast.bob.id, hold.request_id)
    assert counted(cast.acme) == (50, 0)
    assert booked(cast.acme) == (50, 50)
    assert sweep() == 0


def test_a_reservation_is_not_swept_while_its_lease_lasts(cast: Cast) -> None:
    reserve(cast)
    assert sweep() == 0


def test_a_renewal_saves_a_reservation(cast: Cast) -> None:
    hold = reserve(cast)
    let_expire()
    budgets.renew(hold, None)
    assert sweep() == 0


def test_nothing_noted_is_nothing_booked(cast: Cast) -> None:
    reserve(cast)
    let_expire()
    sweep()
    assert counted(cast.acme) == (0, 0)
    assert not LedgerEntry.objects.exists()


def test_a_note_that_cannot_be_read_holds_up_nothing(cast: Cast) -> None:
    for noted in ({}, {"call": {"of": "another version"}}, {"source": "nowhere"}):
        hold = reserve(cast)
        row = Reservation.objects.get(id=hold.id)
        Reservation.objects.filter(id=hold.id).update(noted={**row.noted, **noted} if noted else {})
    other = reserve(cast)
    budgets.renew(other, call_of(30))
    let_expire()
    assert sweep() == 4
    assert counted(cast.acme) == (30, 0)


def test_a_settled_call_is_not_booked_again_by_the_sweeper(cast: Cast) -> None:
    hold = reserve(cast)
    budgets.renew(hold, call_of(30))
    settle(hold, 40)
    let_expire()
    sweep()
    assert counted(cast.acme) == (40, 0)
    assert booked(cast.acme) == (40, 40)


def test_a_process_that_was_only_slow_books_what_the_sweeper_has_not(cast: Cast) -> None:
    hold = reserve(cast)
    budgets.renew(hold, call_of(30))
    let_expire()
    sweep()
    settlement = Settlement(call_of(50))
    assert budgets.settle(hold, settlement) == 20
    assert settlement.was_swept
    # Only once: the next call of that request has nothing to do with it.
    assert budgets.settle(hold, Settlement(call_of(10), lost_is_left_out=True)) == 10
    budgets.release(hold.id)
    assert counted(cast.acme) == (60, 0)
    assert booked(cast.acme) == (60, 60)


@pytest.mark.django_db(transaction=True)
def test_a_settlement_that_was_committed_unheard_is_not_repeated(cast: Cast) -> None:
    hold, settlement = reserve(cast), Settlement(call_of(30))
    budgets.settle(hold, settlement)
    # The connection was lost with the answer, so it is tried again.
    assert budgets.settle(hold, settlement) == 30
    assert counted(cast.acme) == (30, 70)
    assert booked(cast.acme) == (30, 30)


@pytest.mark.parametrize("noted", [0, 20])
def test_a_settlement_that_was_committed_unheard_is_not_repeated_after_the_sweep(
    cast: Cast, noted: int
) -> None:
    hold, settlement = reserve(cast), Settlement(call_of(30))
    budgets.settle(hold, settlement)
    if noted:  # the next call of the same request was in flight
        budgets.renew(hold, call_of(noted))
    let_expire()
    assert sweep() == 1
    assert budgets.settle(hold, settlement) == 30
    assert counted(cast.acme) == (30 + noted, 0)
    assert booked(cast.acme) == (30 + noted, 30 + noted)


def test_a_settlement_after_the_sweep_is_not_repeated(cast: Cast) -> None:
    hold, settlement = reserve(cast), Settlement(call_of(50))
    budgets.renew(hold, call_of(30))
    let_expire()
    sweep()
    assert [budgets.settle(hold, settlement) for _ in range(3)] == [20, 20, 20]
    assert counted(cast.acme) == (50, 0)
    assert booked(cast.acme) == (50, 50)


def test_two_calls_that_look_alike_are_both_booked(cast: Cast) -> None:
    hold = reserve(cast)
    settle(hold, 30), settle(hold, 30)
    assert booked(cast.acme) == (60, 60)
    assert counted(cast.acme) == (60, 40)


def test_a_cached_answer_is_booked_once_however_often_it_is_tried(cast: Cast) -> None:
    settlement = Settlement(call_of(40, cache=CacheNote(CacheResult.HIT, saved_micros=40)))
    for _ in range(2):
        budgets.book_unspent(caller_of(cast.acme), uuid.uuid4(), settlement)
    assert LedgerEntry.objects.get().saved_micros == 40


def test_every_column_of_the_ledger_is_written(cast: Cast) -> None:
    conversation, collections = uuid.uuid4(), tuple(uuid.uuid4() for _ in range(3))
    caller = caller_of(
        cast.acme,
        user_id=cast.bob.id,
        key_id=uuid.uuid4(),
        conversation_id=conversation,
        collection_ids=collections,
    )
    hold = budgets.reserve(caller, uuid.uuid4(), WorstCase(100, 100), ())
    call = Call(
        "rewrite", "alias", upstream="double", upstream_model="mödel",
        usage=Usage(7, 3, 5, estimated=True),
        cache=CacheNote(CacheResult.BYPASSED, "sampling", 2, 1.5),
        queue_ms=0.25, first_token_ms=12.5, total_ms=99.75, attempts=3,
        outcome=Outcome.FAILED, error_code="overloaded",
    )  # fmt: skip
    settlement = Settlement(call)
    budgets.settle(hold, settlement)
    row = LedgerEntry.objects.values().get()
    price = Price.objects.get()
    assert row.pop("at") >= hold.reserved_at
    assert row.pop("id") > 0
    assert row == {
        "tenant_id": cast.acme.id, "user_id": cast.bob.id, "key_id": caller.key_id,
        "conversation_id": conversation, "request_id": hold.request_id,
        "settlement_id": settlement.id, "source": "api", "hop": "rewrite", "model": "alias",
        "upstream": "double", "upstream_model": "mödel", "collection_ids": sorted(collections),
        "cache": "bypassed", "cache_reason": "sampling", "prompt_tokens": 7, "cached_tokens": 3,
        "output_tokens": 5, "tokens_estimated": True, "cost_micros": 12, "price_id": price.id,
        "saved_micros": 2, "saved_ms": 1.5, "queue_ms": 0.25, "first_token_ms": 12.5,
        "total_ms": 99.75, "attempts": 3, "outcome": "failed", "error_code": "overloaded",
    }  # fmt: skip


@pytest.mark.parametrize("jump", [timedelta(days=40), timedelta(days=-400)])
def test_a_clock_that_has_jumped_finds_no_other_months_budget(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, jump: timedelta
) -> None:
    """A process's own: the windows are those of the database's clock."""
    limit(cast.acme, MONEY, 150)
    settle(reserve(cast), 100)
    now = timezone.now
    monkeypatch.setattr(budgets.timezone, "now", lambda: now() + jump)
    with pytest.raises(BudgetExceeded):
        reserve(cast)
    assert counted(cast.acme) == (100, 0)
    assert set(BudgetCounter.objects.filter(reserved__gt=0)) == set()
    hold = reserve(cast, micros=50)
    assert (hold.month_start, hold.day_start) == budgets._windows_of(hold.caller, now())
    assert counted(cast.acme) == (100, 50)
