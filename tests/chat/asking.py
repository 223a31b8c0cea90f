"""Answers made and stored without a socket: the services and the pipeline alone."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from apps.chat.models import Message, MessageState
from apps.chat.pipeline import Outcome, TextWritten, answer_trace, ask
from apps.chat.services import StartedAnswer, finish_answer, start_answer, store_sources
from apps.chat.streams import process  # noqa: F401 - what services tell pages through
from apps.telemetry.hops import Trace
from apps.tenants.access import Access, find_access
from apps.tenants.aio import in_scope, in_thread
from apps.tenants.models import User
from tests.chat.library import Library

QUESTION = "How many days of paid leave do employees receive?"


@dataclass
class Given:
    """An answer as it was made, and as it is stored."""

    started: StartedAnswer
    outcome: Outcome
    trace: Trace
    message: Message

    @property
    def place(self) -> dict[str, Any]:
        """Where a question that follows it is asked."""
        return {"conversation_id": self.started.conversation_id, "after": self.message.id}


async def access_of(user: User, slug: str = "acme") -> Access:
    found = await in_thread(find_access, user, slug=slug)
    assert found is not None
    return found


async def begin(access: Access, library: Library, **changes: Any) -> tuple[StartedAnswer, ...]:
    return await in_thread(
        start_answer,
        **{
            "access": access,
            "question": QUESTION,
            "conversation_id": None,
            "after": None,
            "collection_ids": [library.collection.id],
            "model_aliases": ["tgi"],
            **changes,
        },
    )


async def asked(access: Access, library: Library, *, stop_after: int = 0, **changes: Any) -> Given:
    """Ask and answer; `stop_after`: a stop after so many pieces of text."""
    (started,) = await begin(access, library, **changes)
    return await given(access, started, stop_after=stop_after)


async def given(access: Access, started: StartedAnswer, *, stop_after: int = 0) -> Given:
    trace, outcome = answer_trace(started.caller, started.answer_id), Outcome()
    writing = asyncio.create_task(_write(started, trace, outcome, stop_after))
    with suppress(asyncio.CancelledError):
        await writing
    state = MessageState.STOPPED if writing.cancelled() else MessageState.COMPLETE
    if outcome.interrupted:
        state = MessageState.INTERRUPTED
    common: dict[str, Any] = {"access": access, "started": started}
    await in_thread(store_sources, **common, passages=outcome.passages)
    await in_thread(finish_answer, **common, outcome=outcome, state=state, trace=trace)
    return Given(started, outcome, trace, await read(access, started.answer_id))


async def read(access: Access, message_id: uuid.UUID) -> Message:
    def find() -> Message:
        return Message.objects.select_related("conversation").get(id=message_id)

    return await in_scope(access.tenant.id, find)


async def _write(started: StartedAnswer, trace: Trace, outcome: Outcome, stop_after: int) -> None:
    task = asyncio.current_task()
    assert task is not None
    pieces = 0
    async with aclosing(ask(started.caller, started.request, trace, outcome)) as events:
        async for event in events:
            pieces += isinstance(event, TextWritten)
            if stop_after and pieces == stop_after:
                task.cancel()
