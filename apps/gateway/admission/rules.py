"""The limits that bind a caller, kept in each process for as long as they hold.

Redis has a word for each tenant, its epoch, which every change of its limits replaces; what a
process keeps holds while its epoch is that one. Redis is asked at each request, in the same
script that takes from the rates. Where Redis has lost its data the word is gone: the rules are
read anew and a new word is set, never the same as before.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass
from time import monotonic

from apps.gateway.admission.endings import start
from apps.gateway.admission.postgres import stored
from apps.gateway.redis import PREFIX, replace_word, script, translated
from apps.gateway.types import Caller
from apps.inference.per_loop import PerLoop
from apps.tenants.aio import in_thread
from apps.tenants.limits import LimitRule, limits_for

logger = logging.getLogger(__name__)

# A change that could not be announced, because Redis was away, holds after as long.
_OLDEST_S = 30.0
_PATIENCE_S = 5.0
_MOST_CALLERS = 4096  # about 1 kB each
_Who = tuple[uuid.UUID, int | None, uuid.UUID | None]
_kept: dict[_Who, Rules] = {}

_EPOCH = """
local found = redis.call('GET', KEYS[1])
if found then return found end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
"""


@dataclass(frozen=True)
class Rules:
    """What binds a caller, and the epoch that it is of."""

    epoch: str
    limits: tuple[LimitRule, ...]
    read_at: float  # by the monotonic clock


async def _drop(readings: dict[tuple[_Who, str], asyncio.Task[Rules]]) -> None:
    readings.clear()


# Under way, by the epoch that was read before them.
_readings: PerLoop[dict[tuple[_Who, str], asyncio.Task[Rules]]] = PerLoop(dict, _drop)


async def rules_for(caller: Caller) -> tuple[LimitRule, ...]:
    """The limits that bind a caller now; raises StoreDown."""
    epoch, kept = await _current_epoch(caller), kept_rules(caller)
    if kept is not None and kept.epoch == epoch:
        return kept.limits
    return (await read_rules(caller, epoch)).limits


def kept_rules(caller: Caller) -> Rules | None:
    """What this process keeps of them: good if its epoch still is the one in Redis."""
    found = _kept.get(_who(caller))
    if found is None or monotonic() - found.read_at > _OLDEST_S:
        return None
    return found


async def read_rules(caller: Caller, epoch: str | None = None) -> Rules:
    """Read them anew. The epoch comes first: a change between the two is seen next time."""
    epoch = epoch or await _current_epoch(caller)
    if (kept := kept_rules(caller)) is not None and kept.epoch == epoch:
        return kept  # read by another meanwhile
    readings, which = _readings.get(), (_who(caller), epoch)
    if which not in readings:
        # Of many who come to a process that has just started, one reads.
        readings[which] = start(_read(caller, epoch))
        readings[which].add_done_callback(lambda _: readings.pop(which, None))
    with stored():
        # Not `wait_for`, which in Python 3.11 may lose the waiter's own cancellation.
        async with asyncio.timeout(_PATIENCE_S):
            return await asyncio.shield(readings[which])


def limits_changed(tenant_id: uuid.UUID) -> None:
    """Have every process read the tenant's limits anew. To be called after the commit."""
    if not replace_word(epoch_key(tenant_id)):
        logger.warning("limits of tenant %s changed and Redis was not told", tenant_id)


def epoch_key(tenant_id: uuid.UUID) -> str:
    return f"{PREFIX}limits:{tenant_id}"


async def _read(caller: Caller, epoch: str) -> Rules:
    who = _who(caller)
    limits = await in_thread(
        limits_for, caller.tenant_id, user_id=caller.user_id, key_id=caller.key_id
    )
    if len(_kept) >= _MOST_CALLERS:
        _kept.clear()
    rules = _kept[who] = Rules(epoch, limits, monotonic())
    return rules


async def _current_epoch(caller: Caller) -> str:
    async with translated():
        found: bytes = await script(_EPOCH)([epoch_key(caller.tenant_id)], [uuid.uuid4().hex])
    return found.decode()


def _who(caller: Caller) -> _Who:
    return caller.tenant_id, caller.user_id, caller.key_id
