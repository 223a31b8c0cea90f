"""Messages that a page sends again, because it cannot know whether they arrived.

A connection may break between a question and the first word about it. The page then sends the
question anew, under the same id: here is kept which answers were begun for that id.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Iterable

from redis.exceptions import RedisError

from apps.chat.streams.keys import Person, arrival_key
from apps.gateway.redis import client

logger = logging.getLogger(__name__)

# A page that was away for longer shows what is stored, and sends nothing by itself.
_KEPT_S = 3600
# Letting a question in takes some ten milliseconds; a process that died there is forgotten soon.
_LETTING_IN_S = 5
_LOOK_EVERY_S = 0.05
_LETTING_IN = ""


async def take(person: Person, client_id: str) -> tuple[uuid.UUID, ...] | None:
    """The answers begun for a message with this id; None where it is the first, and let in now.

    Waits for one that is being let in. With Redis away every message is the first.
    """
    if not client_id:
        return None
    key = arrival_key(person, client_id)
    try:
        while not await client().set(key, _LETTING_IN, nx=True, ex=_LETTING_IN_S):
            if kept := await client().get(key):
                return tuple(uuid.UUID(each) for each in json.loads(kept))
            await asyncio.sleep(_LOOK_EVERY_S)
    except (RedisError, OSError) as exc:
        logger.warning("not known whether a message came before: %s", type(exc).__name__)
    return None


async def note(person: Person, client_id: str, answer_ids: Iterable[uuid.UUID]) -> None:
    """These answers were begun for it; none: it was refused, and may come again."""
    begun = json.dumps([str(each) for each in answer_ids])
    if not client_id:
        return
    key = arrival_key(person, client_id)
    try:
        if begun == "[]":
            await client().delete(key)
        else:
            await client().set(key, begun, ex=_KEPT_S)
    except (RedisError, OSError) as exc:
        logger.warning("not kept that a message came: %s", type(exc).__name__)
