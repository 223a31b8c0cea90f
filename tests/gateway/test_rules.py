"""Which limits bind is remembered for as long as it holds, and not longer."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from apps.gateway.admission.rules import epoch_key, limits_changed, rules_for
from apps.gateway.errors import StoreDown
from apps.gateway.redis import client
from apps.gateway.types import Caller
from apps.tenants.aio import in_thread
from apps.tenants.models import Limit, Measure, Subject
from apps.tenants.services.limits import set_limit
from tests.cast import Cast
from tests.gateway.spending import MONEY, caller_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def caller(cast: Cast) -> Caller:
    return caller_of(cast.acme, user_id=cast.bob.id)


def change(cast: Cast, amount: int) -> None:
    set_limit(
        tenant=cast.acme,
        actor=cast.olga,
        given_by=Limit.GivenBy.OPS,
        subject=Subject.TENANT,
        measure=MONEY,
        amount=amount,
    )


def change_unannounced(cast: Cast, amount: int) -> None:
    Limit.objects.filter(tenant=cast.acme, measure=MONEY).update(amount=amount)


async def amounts(caller: Caller) -> list[int]:
    return [rule.amount for rule in await rules_for(caller)]


async def test_a_change_holds_for_the_next_request(cast: Cast, caller: Caller) -> None:
    assert await amounts(caller) == []
    for amount in (5, 6):
        await in_thread(change, cast, amount)
        assert await amounts(caller) == [amount]


async def test_they_are_not_read_from_the_database_at_each_request(
    cast: Cast, caller: Caller
) -> None:
    await in_thread(change, cast, 5)
    assert await amounts(caller) == [5]
    await in_thread(change_unannounced, cast, 6)
    assert await amounts(caller) == [5]


async def test_a_change_at_another_tenant_leaves_them(cast: Cast, caller: Caller) -> None:
    await in_thread(change, cast, 5)
    await amounts(caller)
    await in_thread(change_unannounced, cast, 6)
    limits_changed(cast.rival.id)
    assert await amounts(caller) == [5]


async def test_they_are_read_anew_when_redis_has_lost_its_data(cast: Cast, caller: Caller) -> None:
    await in_thread(change, cast, 5)
    for amount in (6, 7):
        await amounts(caller)
        await in_thread(change_unannounced, cast, amount)
        await client().delete(epoch_key(cast.acme.id))
        assert await amounts(caller) == [amount]


async def test_a_change_that_redis_was_not_told_of_holds_half_a_minute_later(
    cast: Cast, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.gateway.admission import rules

    await in_thread(change, cast, 5)
    await amounts(caller)
    await in_thread(change_unannounced, cast, 6)
    then = rules.monotonic() + 31
    monkeypatch.setattr(rules, "monotonic", lambda: then)
    assert await amounts(caller) == [6]


async def test_a_change_is_made_also_while_redis_is_away(
    cast: Cast, caller: Caller, settings: Settings
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    await in_thread(change, cast, 5)
    with pytest.raises(StoreDown):
        await rules_for(caller)


async def test_persons_and_keys_are_remembered_apart(cast: Cast, caller: Caller) -> None:
    await in_thread(
        Limit.objects.create,
        tenant=cast.acme,
        subject=Subject.MEMBER,
        subject_id=str(cast.alice.id),
        measure=Measure.CONCURRENT_CALLS,
        amount=3,
        given_by=Limit.GivenBy.MANAGER,
    )
    assert await amounts(caller) == []
    assert await amounts(caller_of(cast.acme, user_id=cast.alice.id)) == [3]
