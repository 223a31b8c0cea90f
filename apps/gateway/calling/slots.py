"""Places at the upstreams, shared by all processes: leases in Redis, and a breaker beside them.

One script chooses and takes a place, one gives it back and says how the call went, so that no two
processes can take the last place, and a call costs two round trips. Times are Redis's own: the
clocks of the processes have no part in it.

A lease is renewed while its call lasts. Those of a process that died run out.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from apps.gateway.errors import StoreDown
from apps.gateway.redis import NOW, PREFIX, script, translated
from apps.gateway.types import Route
from apps.inference.per_loop import PerLoop

log = logging.getLogger(__name__)

LEASE_S = 15.0
RENEW_S = 5.0  # two renewals may fail before a lease runs out
# The breaker: after so many failures in a row nothing is sent for `COOLDOWN_S`, then one trial;
# after each that fails, twice as long, but never so long that a recovery is not seen in 10 s.
OPEN_AFTER = 3
COOLDOWN_S = 1.0
COOLDOWN_MAX_S = 8.0
# A trial whose process died; as long as its lease.
_TRIAL_S = LEASE_S
# Figures of an upstream that nobody calls any more.
_KEEP_S = 3600

# KEYS: of each candidate its leases and its breaker, in an order drawn by chance.
# ARGV: lease, lease ms, trial ms; then of each candidate its bound and its weight.
# Replies {index, is trial}; index 0: all full; -1: all down.
_TAKE = (
    NOW
    + """
local lease, lease_ms, trial_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local best, best_load, trial, full = 0, nil, 0, false
local last, last_failed = 0, nil

local function on_trial(breaker)
  return tonumber(redis.call('HGET', breaker, 'trial_until') or '0') > now
end

for i = 1, #KEYS / 2 do
  local places, breaker = KEYS[2 * i - 1], KEYS[2 * i]
  local bound, weight = tonumber(ARGV[2 + 2 * i]), tonumber(ARGV[3 + 2 * i])
  redis.call('ZREMRANGEBYSCORE', places, '-inf', now)
  local held = redis.call('ZCARD', places)
  local open_until = tonumber(redis.call('HGET', breaker, 'open_until') or '-1')
  local load = held / weight
  if open_until < 0 then
    if held >= bound then
      full = true
    elseif best_load == nil or load < best_load then
      best, best_load, trial = i, load, 0
    end
  elseif not on_trial(breaker) then
    local failed = tonumber(redis.call('HGET', breaker, 'failed_at') or '0')
    if open_until <= now and held < bound and (best_load == nil or load < best_load) then
      best, best_load, trial = i, load, 1
    end
    if held < bound and (last_failed == nil or failed < last_failed) then
      last, last_failed = i, failed
    end
  end
end

-- All are open: the one that failed least recently is tried rather than none for ever.
if best == 0 and not full and last > 0 then best, trial = last, 1 end
if best == 0 then return {full and 0 or -1, 0} end
redis.call('ZADD', KEYS[2 * best - 1], now + lease_ms, lease)
redis.call('PEXPIRE', KEYS[2 * best - 1], 4 * lease_ms)
if trial == 1 then
  redis.call('HSET', KEYS[2 * best], 'trial', lease, 'trial_until', now + trial_ms)
end
return {best, trial}
"""
)

# KEYS: leases, breaker. ARGV: lease, how it went, error code, threshold, cooldown ms, its maximum,
# ms to keep, whether the place is given back too.
_GIVE_BACK = (
    NOW
    + """
local lease, went, code = ARGV[1], ARGV[2], ARGV[3]
local threshold, cooldown, cooldown_max = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local breaker = KEYS[2]
if ARGV[8] == '1' then redis.call('ZREM', KEYS[1], lease) end

local its_trial = redis.call('HGET', breaker, 'trial') == lease
if went == 'well' then
  if redis.call('HEXISTS', breaker, 'failures') == 1 then
    redis.call('HDEL', breaker, 'failures', 'open_until', 'cooldown', 'trial', 'trial_until')
  end
elseif went == 'badly' then
  local failures = redis.call('HINCRBY', breaker, 'failures', 1)
  redis.call('HSET', breaker, 'failed_at', now, 'code', code)
  local open = redis.call('HEXISTS', breaker, 'open_until') == 1
  local wait = cooldown
  if open then
    wait = math.min(2 * tonumber(redis.call('HGET', breaker, 'cooldown')), cooldown_max)
  end
  -- Calls that were under way when it opened fail after it; only trials lengthen the wait.
  if (open and its_trial) or (not open and failures >= threshold) then
    redis.call('HSET', breaker, 'open_until', now + wait, 'cooldown', wait)
  end
end
if its_trial then redis.call('HDEL', breaker, 'trial', 'trial_until') end
redis.call('PEXPIRE', breaker, ARGV[7])
return 1
"""
)

# KEYS: leases of one upstream. ARGV: lease ms, then the leases. One that ran out stays so.
_RENEW = (
    NOW
    + """
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[1]), ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], 4 * tonumber(ARGV[1]))
return 1
"""
)


# KEYS: breaker. An open one lets its next trial through now.
_LET_TRY = (
    NOW
    + """
if redis.call('HEXISTS', KEYS[1], 'open_until') == 1 then
  redis.call('HSET', KEYS[1], 'open_until', now)
end
return 1
"""
)


class Went(StrEnum):
    """How a call went, as far as it says something of the upstream."""

    WELL = "well"
    BADLY = "badly"
    UNKNOWN = "unknown"  # refused for the request's sake, or broken off before it told


class Why(StrEnum):
    """Why there is no place."""

    FULL = "full"
    DOWN = "down"


@dataclass(frozen=True)
class Place:
    """A place taken at a route's upstream."""

    route: Route
    lease: str
    trial: bool  # whether its breaker waits for how this call goes


def leases_key(upstream: str) -> str:
    """A sorted set: leases, by when they run out."""
    return f"{PREFIX}leases:{upstream}"


def breaker_key(upstream: str) -> str:
    """A hash: failures, open_until, cooldown, trial, trial_until, failed_at, code."""
    return f"{PREFIX}breaker:{upstream}"


async def take(routes: Sequence[Route]) -> Place | Why:
    """A place at the least loaded of the routes' healthy upstreams; raises StoreDown."""
    # Equally loaded ones are found in the order given: by chance, so that none is preferred.
    drawn = sorted(routes, key=lambda _: secrets.randbits(32))
    lease = secrets.token_hex(8)
    keys: list[str] = []
    args: list[str | int] = [lease, _ms(LEASE_S), _ms(_TRIAL_S)]
    for route in drawn:
        keys += [leases_key(route.upstream.name), breaker_key(route.upstream.name)]
        args += [route.upstream.max_concurrency, route.weight]
    async with translated():
        index, trial = await script(_TAKE)(keys=keys, args=args)
    if index < 1:
        return Why.FULL if index == 0 else Why.DOWN
    place = Place(drawn[index - 1], lease, bool(trial))
    _keep(place)
    return place


async def tell(place: Place, went: Went, error_code: str = "") -> None:
    """Note early how the call goes: for a trial, others wait for it. Never raises."""
    await _return(place, went, error_code, gives_back=False)


async def give_back(place: Place, went: Went, error_code: str = "") -> None:
    """Give the place back, and say how the call went. Never raises: the lease runs out."""
    _kept.get().places.pop(place.lease, None)
    await _return(place, went, error_code, gives_back=True)


async def let_try(upstream: str) -> None:
    """The upstream looks well: the next call may try it, however long its pause. Or StoreDown."""
    async with translated():
        await script(_LET_TRY)(keys=[breaker_key(upstream)])


async def _return(place: Place, went: Went, error_code: str, *, gives_back: bool) -> None:
    name = place.route.upstream.name
    args: list[str | int] = [place.lease, went, error_code, OPEN_AFTER]
    args += [_ms(COOLDOWN_S), _ms(COOLDOWN_MAX_S), _ms(_KEEP_S), int(gives_back)]
    try:
        async with translated():
            await script(_GIVE_BACK)(keys=[leases_key(name), breaker_key(name)], args=args)
    except StoreDown:
        log.warning("a place at %s was not given back: Redis is away, the lease runs out", name)


@dataclass
class _Kept:
    """What an event loop holds: its places, and the task that renews them while there are any."""

    places: dict[str, Place] = field(default_factory=dict)
    renewal: asyncio.Task[None] | None = None


async def _drop(kept: _Kept) -> None:
    kept.renewal = None


_kept: PerLoop[_Kept] = PerLoop(_Kept, _drop)


def _keep(place: Place) -> None:
    kept = _kept.get()
    kept.places[place.lease] = place
    if kept.renewal is None or kept.renewal.done():
        kept.renewal = asyncio.get_running_loop().create_task(_renew(kept))


async def _renew(kept: _Kept) -> None:
    while kept.places:
        await asyncio.sleep(RENEW_S)
        by_upstream: dict[str, list[str]] = {}
        for place in kept.places.values():
            by_upstream.setdefault(place.route.upstream.name, []).append(place.lease)
        for name, leases in by_upstream.items():
            try:
                async with translated():
                    args: list[str | int] = [_ms(LEASE_S), *leases]
                    await script(_RENEW)(keys=[leases_key(name)], args=args)
            except StoreDown:
                log.warning("the leases at %s were not renewed: Redis is away", name)


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
