"""The ASGI application below `/v1/`: it stands before Django, whose middleware it does not need.

A request is one task. When its client goes away the task is cancelled, and with it whatever it
waits for: the upstream's connection, its place there, and what was reserved.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from apps.gateway.api.errors import ApiError
from apps.gateway.api.exchange import ClientGone, Exchange, Receive, Scope, Send
from apps.gateway.api.faults import log_fault, told
from apps.gateway.api.routes import find_route, pattern_of
from apps.gateway.metrics import count_response

logger = logging.getLogger(__name__)

PREFIX = "/v1/"
_NO_ANSWER = 499  # in metrics, as nginx has it: the client went away before there was a status
Application = Callable[..., Awaitable[None]]


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request, or stop when its client has gone."""
    exchange = Exchange.of(scope, receive, send)
    work = asyncio.create_task(_answer(exchange), name="v1")
    listening = asyncio.create_task(exchange.listen(), name="v1-listen")
    try:
        await asyncio.wait({work, listening}, return_when=asyncio.FIRST_COMPLETED)
        if not exchange.finished and not work.done():
            exchange.on_gone()
            work.cancel()
        await asyncio.wait({work})
        if not work.cancelled() and (fault := work.exception()) is not None:
            log_fault(fault)
    finally:
        listening.cancel()
        # Also when the server itself is shutting down.
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
        count_response(pattern_of(str(scope["path"])), exchange.status or _NO_ANSWER)


def mounted(pages: Application) -> Application:
    """This below `/v1/`, and `pages` everywhere else."""

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        here = str(scope["path"]).startswith(PREFIX)
        await (application if here else pages)(scope, receive, send)

    return dispatch


async def _answer(exchange: Exchange) -> None:
    try:
        await _carry_out(exchange)
    except ClientGone:
        logger.info("API: a client has stopped reading")
    except Exception as exc:  # everything is answered in JSON
        error = told(exc)
        if not exchange.started:
            await exchange.refuse(error)
    if exchange.started and not exchange.finished:
        await exchange.finish()  # what has begun must not stay open


async def _carry_out(exchange: Exchange) -> None:
    route, argument = find_route(str(exchange.scope["path"]))
    allowed = ", ".join([*route, "OPTIONS"])
    if exchange.method == "OPTIONS":
        await exchange.reply(204, headers={"allow": allowed})
        return
    handler = route.get(exchange.method)
    if handler is None:
        words = f"This address takes {allowed}."
        raise ApiError(405, "method_not_allowed", words, headers={"allow": allowed})
    await handler(exchange, argument)
