"""The way in: every request that may cost something is admitted, and its client may leave."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from apps.gateway.admission import Admission, admitted
from apps.gateway.api.errors import model_not_found
from apps.gateway.api.exchange import Exchange
from apps.gateway.api.keys import KeyHolder
from apps.gateway.api.tracing import traced
from apps.gateway.calling.catalogue import Catalogue
from apps.gateway.errors import UnknownModel
from apps.gateway.types import Caller, Model, Outcome


@asynccontextmanager
async def let_in(exchange: Exchange, caller: Caller) -> AsyncIterator[Admission]:
    """Admit the request; raises RateLimited or StoreDown.

    What it is told of its limits stands in the answer's headers. When the client goes away, its
    calls end as disconnected.
    """
    request_id = uuid.uuid4()
    exchange.reply_headers["x-request-id"] = str(request_id)
    name = f"{exchange.method} {exchange.scope['path']}"
    async with AsyncExitStack() as stack:
        joined = stack.enter_context(traced(name, caller, request_id))
        admission = await stack.enter_async_context(admitted(joined, request_id=request_id))
        exchange.more_headers = lambda: admission.headers

        def disconnect() -> None:
            admission.broken_off_as = Outcome.DISCONNECTED

        exchange.on_gone = disconnect
        yield admission


def find_model(holder: KeyHolder, offer: Catalogue, name: str, kind: str) -> Model:
    """The model called `name`. Not there and not for this key are the same to its holder."""
    if holder.may_use(name):
        with contextlib.suppress(UnknownModel):
            return offer.find(name, kind)
    raise model_not_found(name)


def opts_out(exchange: Exchange) -> bool:
    """Whether the client wants no answer that was given before."""
    wanted = exchange.headers.get("cache-control", "").lower().split(",")
    return bool({"no-cache", "no-store"} & {word.strip() for word in wanted})
