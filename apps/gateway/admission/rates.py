"""Requests and tokens a minute, and calls at the same time: taken all at once or not at all.

One script of Redis takes from every limit that binds a caller, or from none; scripts run one
after another, so no two requests can take the same last place. Rates are leaky buckets that hold
a minute's worth (GCRA's meter form): what was taken drains evenly, and may be given back. Calls
at the same time are leases in a sorted set: the place of a process that died comes free by
itself. Times are those of Redis. Should its clock go back, what bears a later time is dated anew,
so that nobody is locked out for longer than a minute.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from apps.gateway.redis import PREFIX, script, translated
from apps.tenants.limits import LimitRule
from apps.tenants.models import Measure, Subject

RATES = (Measure.REQUESTS_PER_MINUTE, Measure.TOKENS_PER_MINUTE, Measure.CONCURRENT_CALLS)
# A place is held for as long without a sign of life; renewals come every 5 s.
LEASE_S = 30.0
# Redis counts in doubles, which are whole up to here.
_MOST = 2**53

_CLOCK = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local minute = 60000000
"""
_BUCKET = """
-- What is in the bucket, in units. Never more than it holds: a limit that was lowered, or a call
-- that used more than its worst case, must not lock anybody out for more than a minute.
local function level(key, amount)
    local found = redis.call('HMGET', key, 'level', 'at')
    if not found[1] then return 0 end
    local at = tonumber(found[2])
    if at > now then
        redis.call('HSET', key, 'at', string.format('%.0f', now))
        at = now
    end
    return math.max(0, math.min(found[1], amount) - (now - at) * amount / minute)
end
local function fill(key, level)
    if level < 0.000001 then
        redis.call('DEL', key)
    else
        redis.call('HSET', key, 'level', string.format('%.17g', level),
                   'at', string.format('%.0f', now))
        redis.call('PEXPIRE', key, 61000)
    end
end
"""
# KEYS: the epoch of the rules, then one a limit. ARGV: the epoch known (empty: any), the request,
# the lease in µs, then three a limit: kind, amount, how much. The answer: which limit refused (0:
# none, -1: the rules have changed), after how many µs to try again (-1: never), and two a limit:
# what is left, and in how many µs all of it will be. A bucket that lets nothing in is never full.
_TAKE = (
    _CLOCK
    + _BUCKET
    + """
if ARGV[1] ~= '' and redis.call('GET', KEYS[1]) ~= ARGV[1] then return {-1, 0} end
local request, lease = ARGV[2], tonumber(ARGV[3])
local found, refused, wait = {}, 0, 0
local function refuse(i, after)
    if refused == 0 or (wait ~= -1 and (after == -1 or after > wait)) then
        refused, wait = i - 1, after
    end
end
for i = 2, #KEYS do
    local kind, amount, n = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
    if kind == 'place' then
        -- The clock has gone back where a lease seems to last for longer than leases do.
        for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], now + lease + 1, '+inf')) do
            redis.call('ZADD', KEYS[i], now + lease, name)
        end
        found[i] = redis.call('ZCOUNT', KEYS[i], now, '+inf')
        if amount == 0 then refuse(i, -1)
        elseif found[i] + n > amount then refuse(i, 1000000) end
    else
        found[i] = level(KEYS[i], amount)
        if n > amount then refuse(i, -1)
        elseif found[i] + n > amount + 0.000001 then
            refuse(i, math.ceil((found[i] + n - amount) * minute / amount))
        end
    end
end
local answer = {refused, wait}
for i = 2, #KEYS do
    local kind, amount, n = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
    local now_in = found[i]
    if refused == 0 and n > 0 then
        now_in = now_in + n
        if kind == 'place' then
            redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', '(' .. string.format('%.0f', now))
            redis.call('ZADD', KEYS[i], now + lease, request)
            redis.call('PEXPIRE', KEYS[i], math.ceil(lease / 500))
        else
            fill(KEYS[i], now_in)
        end
    end
    table.insert(answer, math.max(0, math.floor(amount - now_in + 0.000001)))
    local full = 0
    if kind ~= 'place' and amount > 0 then full = math.ceil(now_in * minute / amount) end
    table.insert(answer, full)
end
return answer
"""
)
# KEYS: one a limit. ARGV: the request, then three a limit: kind, amount, how much goes back; less
# than nothing is taken besides, whether or not there is room.
_GIVE_BACK = (
    _CLOCK
    + _BUCKET
    + """
for i = 1, #KEYS do
    local kind, amount, n = ARGV[3 * i - 1], tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1])
    if kind == 'place' then
        redis.call('ZREM', KEYS[i], ARGV[1])
    else
        fill(KEYS[i], math.max(0, level(KEYS[i], amount) - n))
    end
end
"""
)
# KEYS: one a limit on calls at the same time. ARGV: the request, the lease in µs.
_RENEW = (
    _CLOCK
    + """
for i = 1, #KEYS do
    redis.call('ZADD', KEYS[i], now + ARGV[2], ARGV[1])
    redis.call('PEXPIRE', KEYS[i], math.ceil(ARGV[2] / 500))
end
"""
)


@dataclass(frozen=True)
class Rate:
    """One limit, and how much a request takes of it; nothing only looks."""

    measure: Measure
    subject: Subject
    key: str
    amount: int
    n: int

    @property
    def kind(self) -> str:
        return "place" if self.measure == Measure.CONCURRENT_CALLS else "rate"


@dataclass(frozen=True)
class Room:
    """What one limit has left."""

    rate: Rate
    remaining: int
    full_in_s: float  # until all of it is there again


@dataclass(frozen=True)
class Taken:
    """What became of it: nothing was taken where one refused, or where the rules are old."""

    rooms: tuple[Room, ...] = ()
    refused: Rate | None = None
    retry_after_s: float | None = None  # None: however long one waits, it will not fit
    rules_are_old: bool = False


def rates_of(
    tenant_id: uuid.UUID, rules: Iterable[LimitRule], takes: Mapping[Measure, int]
) -> tuple[Rate, ...]:
    """The limits on what is taken: of several on the same subject and measure, the tightest."""
    tightest: dict[tuple[Measure, Subject], Rate] = {}
    for rule in rules:
        if rule.measure not in takes:
            continue
        place = (rule.measure, rule.subject)
        amount = min(rule.amount, _MOST)
        if place not in tightest or amount < tightest[place].amount:
            name = f"{rule.measure}:{tenant_id}:{rule.subject}:{rule.subject_id}"
            key = f"{PREFIX}rate:{name}"
            tightest[place] = Rate(*place, key=key, amount=amount, n=takes[rule.measure])
    return tuple(tightest.values())


async def take(
    rates: Sequence[Rate], *, request: str, epoch_key: str = "", epoch: str = ""
) -> Taken:
    """Take from all of `rates`, or from none; raises StoreDown.

    `epoch`: of the rules that `rates` are by; where another is in force nothing is taken.
    """
    keys = [epoch_key, *(rate.key for rate in rates)]
    arguments = [epoch, request, _us(LEASE_S), *_triples(rates)]
    async with translated():
        refused, wait_us, *rest = await script(_TAKE)(keys, arguments)
    if refused == -1:
        return Taken(rules_are_old=True)
    return Taken(
        rooms=tuple(
            Room(rate, remaining=rest[2 * i], full_in_s=rest[2 * i + 1] / 1e6)
            for i, rate in enumerate(rates)
        ),
        refused=rates[refused - 1] if refused else None,
        retry_after_s=None if wait_us == -1 else wait_us / 1e6,
    )


async def give_back(rates: Sequence[Rate], *, request: str) -> None:
    """Give back `n` of each, and the places; raises StoreDown."""
    if not rates:
        return
    async with translated():
        await script(_GIVE_BACK)([rate.key for rate in rates], [request, *_triples(rates)])


async def renew(rates: Sequence[Rate], *, request: str) -> None:
    """Hold the places among `rates` for another lease; raises StoreDown."""
    keys = [rate.key for rate in rates if rate.kind == "place"]
    if not keys:
        return
    async with translated():
        await script(_RENEW)(keys, [request, _us(LEASE_S)])


def _triples(rates: Sequence[Rate]) -> list[str | int]:
    return [part for rate in rates for part in (rate.kind, rate.amount, rate.n)]


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)
