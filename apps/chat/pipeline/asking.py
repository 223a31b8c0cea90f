"""A question with its admission: what people, commands and programs ask through."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace

from apps.chat.pipeline.answer import answer_question
from apps.chat.pipeline.types import AnswerRequest, Outcome, PipelineEvent
from apps.gateway.admission import Admission, admitted
from apps.gateway.errors import StoreDown
from apps.gateway.types import Caller
from apps.telemetry.hops import Trace


def answer_trace(caller: Caller, trace_id: uuid.UUID) -> Trace:
    """A trace of an answer in `caller`'s name; its id is the gateway's request's as well."""
    return Trace(
        tenant_id=caller.tenant_id,
        kind="answer",
        trace_id=trace_id,
        parent=caller.traceparent,
        user_id=caller.user_id,
        key_id=caller.key_id,
        conversation_id=caller.conversation_id,
        collection_ids=caller.collection_ids,
        request_id=trace_id,
        source=caller.source.value,
    )


async def ask(
    caller: Caller,
    request: AnswerRequest,
    trace: Trace,
    outcome: Outcome,
    *,
    on_admitted: Callable[[Admission], None] | None = None,
) -> AsyncGenerator[PipelineEvent, None]:
    """Let the question in and answer it. Raises Limited where a limit refuses it.

    With the store of limits away no model is asked, and the reader is told. `on_admitted` is
    given the admission, for a caller that knows how the answer is broken off.
    """
    async with AsyncExitStack() as stack:
        try:
            traced = replace(caller, traceparent=trace.traceparent)
            entering = admitted(traced, request_id=trace.trace_id)
            admission = await stack.enter_async_context(entering)
        except StoreDown:
            admission = None
        if admission is not None and on_admitted is not None:
            on_admitted(admission)
        events = answer_question(request, trace, outcome, admission)
        try:
            async with aclosing(events) as opened:
                async for event in opened:
                    yield event
        finally:
            # However it ended: what was spent until a stop was spent.
            if admission is not None and request.model is not None:
                outcome.cost_micros = admission.spent_micros
