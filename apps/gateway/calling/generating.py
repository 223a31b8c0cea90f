"""Generation at whichever upstream can take it.

What fails before anything has been shown is tried elsewhere; after that, the error goes to the
caller as it is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass

from apps.gateway.calling.attempts import Attempts, DeadlineOver
from apps.gateway.calling.reports import CallReport
from apps.gateway.calling.slots import Went, tell
from apps.gateway.calling.upstreams import generator_of
from apps.gateway.types import Model, Upstream
from apps.inference import errors
from apps.inference.patience import Patience
from apps.inference.types import GenerationEvent, GenerationRequest


@dataclass
class _Begun:
    """A call whose first event is there. Leaving `held` closes its connection and its place."""

    held: AsyncExitStack
    events: AsyncIterator[GenerationEvent]
    first: GenerationEvent
    upstream: Upstream
    patience: Patience


async def generate(
    model: Model, request: GenerationRequest, report: CallReport
) -> AsyncGenerator[GenerationEvent, None]:
    """Deltas, then one Finished. Closing the iterator closes the upstream, and frees its place.

    Raises NoUpstream, StoreDown or the upstream's InferenceError.
    """
    attempts = Attempts(model, report)
    begun = await attempts.run(lambda: _begin(attempts, request))
    deadline = attempts.deadline(begun.upstream)
    async with begun.held:
        yield begun.first
        events, upstream, patience = begun.events, begun.upstream, begun.patience
        while (event := await _next(events, upstream, patience, deadline)) is not None:
            yield event


async def _begin(attempts: Attempts, request: GenerationRequest) -> _Begun:
    async with AsyncExitStack() as stack:
        held = await stack.enter_async_context(attempts.placed())
        place, upstream = held.place, held.place.route.upstream
        stream = generator_of(place.route).stream(request)
        events = await stack.enter_async_context(aclosing(stream))
        patience = stack.enter_context(Patience())
        first = await _next(events, upstream, patience, attempts.deadline(upstream))
        if first is None:
            raise errors.ProtocolError(f"The upstream {upstream.name} ended without an answer.")
        held.begun = True
        if place.trial:
            # Others wait for how it goes: a token is enough to tell.
            await tell(place, Went.WELL)
        return _Begun(stack.pop_all(), events, first, upstream, patience)
    raise AssertionError("the stack swallows nothing")


async def _next(
    events: AsyncIterator[GenerationEvent], upstream: Upstream, patience: Patience, deadline: float
) -> GenerationEvent | None:
    """The next event, None at the end; raises DeadlineOver when the call's time is over."""
    try:
        return await patience.wait_until(anext(events, None), deadline)
    except TimeoutError as exc:
        raise DeadlineOver(
            f"The model had not finished within {upstream.deadline_s:g} s, which is the longest "
            "that a call may take. Ask for a shorter answer."
        ) from exc
