"""One question of a conversation at a time, whichever processes its pages are connected to."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from django.utils.translation import gettext_noop
from redis.exceptions import RedisError

from apps.chat.errors import Busy
from apps.chat.models import Message, MessageState
from apps.chat.selectors import state_of
from apps.chat.streams import owning
from apps.chat.streams.keys import asking_key
from apps.chat.streams.owning import Held
from apps.chat.streams.recovery import recover
from apps.gateway.redis import client
from apps.tenants.access import Access
from apps.tenants.aio import in_scope

if TYPE_CHECKING:
    from apps.chat.streams.process import Streams

BUSY = gettext_noop("This conversation is still being answered. Wait for it, or stop it.")
# Letting a question in takes some ten milliseconds; a process that died there is forgotten soon.
_HELD_MS = 5000


@asynccontextmanager
async def turn(
    streams: Streams, access: Access, conversation_id: uuid.UUID | None
) -> AsyncIterator[None]:
    """The block lets a question in; raises Busy while the conversation is being answered.

    An answer there whose process has died is ended first.
    """
    if conversation_id is None:
        yield
        return
    if conversation_id in streams.letting_in or not await _take(conversation_id):
        raise Busy(BUSY)
    streams.letting_in.add(conversation_id)
    try:
        await _check_free(streams, access, conversation_id)
        yield
    finally:
        streams.letting_in.discard(conversation_id)
        with suppress(RedisError, OSError):
            await client().delete(asking_key(conversation_id))


async def _take(conversation_id: uuid.UUID) -> bool:
    try:
        return bool(await client().set(asking_key(conversation_id), 1, nx=True, px=_HELD_MS))
    except (RedisError, OSError):
        return True  # this process alone can say, then


async def _check_free(streams: Streams, access: Access, conversation_id: uuid.UUID) -> None:
    tenant_id = access.tenant.id
    streaming = await in_scope(tenant_id, _streaming, access, conversation_id)
    if any(answer.id in streams.runs for answer in streaming):
        raise Busy(BUSY)
    held = await owning.look((tenant_id, answer.id) for answer in streaming)
    for answer in streaming:
        state = held[tenant_id, answer.id]
        if state == Held.DEAD:
            await recover((tenant_id, answer.id))
        elif state == Held.ALIVE or state_of(answer) == MessageState.STREAMING:
            raise Busy(BUSY)


def _streaming(access: Access, conversation_id: uuid.UUID) -> list[Message]:
    found = Message.objects.filter(
        tenant=access.tenant,
        conversation_id=conversation_id,
        conversation__user=access.user,
        state=MessageState.STREAMING,
    )
    return list(found)
