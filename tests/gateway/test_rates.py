"""Requests and tokens a minute and calls at once, in Redis: all or nothing, exact, drained."""

from __future__ import annotations

import asyncio
import random
import uuid
from dataclasses import replace
from time import monotonic

import pytest

from apps.gateway.admission import rates
from apps.gateway.admission.rates import Rate, Taken, give_back, renew, take
from apps.gateway.admission.refusals import duration, headers_of, rate_limited
from apps.gateway.redis import PREFIX, client
from apps.tenants.limits import LimitRule
from apps.tenants.models import Measure, Subject

REQUESTS, TOKENS, PLACES = rates.RATES
MINUTE_US = 60_000_000


def rate(measure: Measure, amount: int, n: int = 1, subject: Subject = Subject.TENANT) -> Rate:
    return Rate(measure, subject, f"{PREFIX}rate:{uuid.uuid4()}", amount, n)


async def took(*limits: Rate, request: str = "") -> Taken:
    return await take(limits, request=request or uuid.uuid4().hex)


async def dump(*limits: Rate) -> list[bytes | None]:
    return [await client().dump(limit.key) for limit in limits]


async def later(limit: Rate, seconds: float) -> None:
    """As if so much time had passed for a bucket; less than nothing: the clock has gone back."""
    at = int(await client().hget(limit.key, "at") or 0)
    await client().hset(limit.key, "at", str(int(at - seconds * 1_000_000)))


@pytest.mark.parametrize("amount", [1, 2, 7])
async def test_as_many_as_allowed_pass_at_once_and_no_more(amount: int) -> None:
    limit = rate(REQUESTS, amount)
    *passed, refused = [await took(limit) for _ in range(amount + 1)]
    assert all(each.refused is None for each in passed)
    assert refused.refused == limit
    assert refused.retry_after_s is not None
    assert 0 < refused.retry_after_s <= 60 / amount


async def test_exact_under_concurrency() -> None:
    limits = (rate(REQUESTS, 12), rate(PLACES, 10))
    ended = await asyncio.gather(*(took(*limits) for _ in range(100)))
    assert sum(each.refused is None for each in ended) == 10


async def test_a_bucket_drains_evenly() -> None:
    limit = rate(REQUESTS, 6)
    for _ in range(6):
        await took(limit)
    assert (await took(limit)).refused == limit
    await later(limit, 30)
    passed = [await took(limit) for _ in range(4)]
    assert [each.refused is None for each in passed] == [True] * 3 + [False]


async def test_where_one_refuses_nothing_is_taken_of_any() -> None:
    limits = (rate(REQUESTS, 5), rate(PLACES, 5), rate(TOKENS, 100, n=60))
    await took(*limits)
    before = await dump(*limits)
    refused = await took(*limits)
    assert refused.refused == limits[2]
    assert await dump(*limits) == before


async def test_what_is_refused_at_first_leaves_no_key() -> None:
    limits = (rate(REQUESTS, 5), rate(PLACES, 5), rate(TOKENS, 100, n=101))
    await took(*limits)
    assert await dump(*limits) == [None, None, None]


async def test_what_is_given_back_at_once_leaves_no_key() -> None:
    limits = (rate(REQUESTS, 5), rate(PLACES, 5), rate(TOKENS, 100, n=60))
    await took(*limits, request="it")
    await give_back(limits, request="it")
    assert await dump(*limits) == [None, None, None]


async def test_giving_back_makes_no_more_room_than_there_was() -> None:
    limit = rate(TOKENS, 100, n=60)
    await took(limit)
    await later(limit, 60)
    await give_back([limit], request="it")
    passed = [await took(replace(limit, n=50)) for _ in range(3)]
    assert [each.refused is None for each in passed] == [True, True, False]


async def test_what_was_used_beyond_the_worst_case_is_taken_besides() -> None:
    limit = rate(TOKENS, 100, n=10)
    await took(limit)
    await give_back([replace(limit, n=-85)], request="it")
    assert (await took(limit)).refused == limit


@pytest.mark.parametrize("n", [-(10**12), 10**12])
async def test_absurd_figures_lock_nobody_out_for_longer_than_a_minute(n: int) -> None:
    limit = rate(TOKENS, 100, n=10)
    await took(limit)
    await give_back([replace(limit, n=n)], request="it")
    if n < 0:
        assert (await took(limit)).refused == limit
        await later(limit, 60)
    passed = [await took(limit) for _ in range(11)]
    assert [each.refused is None for each in passed] == [True] * 10 + [False]


async def test_a_lowered_limit_locks_nobody_out_for_longer_than_a_minute() -> None:
    limit = rate(TOKENS, 10_000, n=10_000)
    await took(limit)
    lowered = replace(limit, amount=10, n=10)
    assert (await took(lowered)).refused == lowered
    await later(limit, 60)
    assert (await took(lowered)).refused is None


async def test_a_clock_that_went_back_locks_nobody_out_for_longer_than_a_minute() -> None:
    limit = rate(REQUESTS, 2)
    await took(limit)
    await took(limit)
    await later(limit, -3600)  # taken an hour from now
    refused = await took(limit)
    assert refused.refused == limit
    assert refused.retry_after_s is not None
    assert refused.retry_after_s <= 30
    # It has been dated anew, so that it drains from now on.
    await later(limit, 31)
    assert (await took(limit)).refused is None


async def test_a_lease_of_a_clock_that_went_back_ends_with_the_others() -> None:
    limit = rate(PLACES, 1)
    hour_from_now = (await client().time())[0] * 1_000_000 + 3600 * 1_000_000
    await client().zadd(limit.key, {"of one that died": hour_from_now})
    assert (await took(limit)).refused == limit
    score = await client().zscore(limit.key, "of one that died")
    now, _ = await client().time()
    assert score is not None
    assert score / 1_000_000 <= now + rates.LEASE_S + 1


async def test_a_place_whose_process_died_comes_free() -> None:
    limit = rate(PLACES, 1)
    await took(limit, request="dies")
    assert (await took(limit)).refused == limit
    now, _ = await client().time()
    await client().zadd(limit.key, {"dies": (now - 1) * 1_000_000})  # its lease has run out
    assert (await took(limit)).refused is None


async def test_a_renewed_place_stays_taken() -> None:
    limit = rate(PLACES, 1)
    await took(limit, request="lives")
    now, _ = await client().time()
    await client().zadd(limit.key, {"lives": (now - 1) * 1_000_000})
    await renew([limit, rate(REQUESTS, 1)], request="lives")
    assert (await took(limit)).refused == limit


async def test_nothing_is_allowed_where_the_limit_is_nothing() -> None:
    for measure in (REQUESTS, PLACES):
        refused = await took(rate(measure, 0))
        assert refused.retry_after_s is None
        assert "none are allowed" in str(rate_limited(refused))


async def test_the_refusal_that_lasts_longest_is_named() -> None:
    limits = (rate(PLACES, 1), rate(REQUESTS, 2), rate(TOKENS, 100, n=10))
    await took(*limits)
    await took(limits[1])
    refused = await took(*limits)
    assert refused.refused == limits[1]
    never = await took(*limits, rate(TOKENS, 5, n=10))
    assert never.retry_after_s is None


async def test_a_limit_of_the_largest_number_there_is() -> None:
    rule = LimitRule(uuid.uuid4(), Subject.TENANT, "", TOKENS, 2**63 - 1, 80)
    (limit,) = rates.rates_of(uuid.uuid4(), [rule], {TOKENS: 10**12})
    taken = await took(limit)
    assert taken.refused is None
    assert taken.rooms[0].remaining > 10**15


async def test_the_tightest_of_several_limits_is_taken_once() -> None:
    tenant = uuid.uuid4()
    rules = [
        LimitRule(uuid.uuid4(), Subject.TENANT, "", REQUESTS, amount, 80) for amount in (9, 3, 5)
    ]
    limits = rates.rates_of(tenant, rules, {REQUESTS: 1})
    assert [limit.amount for limit in limits] == [3]


async def test_random_takes_and_returns_fill_and_drain_the_bucket_exactly() -> None:
    chance = random.Random(5)  # noqa: S311 - a seed, not a secret
    limit = rate(TOKENS, 1_000)
    level, begun = 0.0, monotonic()
    for _ in range(300):
        n = chance.randrange(1, 400)
        passed = (await took(replace(limit, n=n))).refused is None
        # By the test's account nothing drains but what it says; in truth a little has.
        drained = (monotonic() - begun) * 1_000 / 60
        assert level + n <= 1_000 + drained if passed else level + n > 1_000
        if passed:
            back = chance.randrange(n) if chance.random() < 0.5 else 0
            await give_back([replace(limit, n=back)], request="it")
            level += n - back
        if chance.random() < 0.3:
            seconds = chance.randrange(10)
            await later(limit, seconds)
            level = max(0.0, level - seconds * 1_000 / 60)


async def test_headers_are_those_of_the_tightest() -> None:
    mine, ours = rate(REQUESTS, 60, subject=Subject.MEMBER), rate(REQUESTS, 600)
    taken = await took(mine, ours, rate(PLACES, 5))
    assert headers_of(taken.rooms) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.12, "120ms"),
        (1, "1s"),
        (7.66, "7.66s"),
        (59.999, "1m0s"),
        (360, "6m0s"),
        (3600, "1h0m0s"),
    ],
)
def test_times_are_written_as_openai_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
