"""The chat's websocket: connects, receives, disconnects.

What comes in waits in a short line and is served one by one; what goes out is sent by a `Reader`;
answers are written by `AnswerRun` tasks, which outlive the socket.
"""

from __future__ import annotations

import asyncio
import logging
from importlib import import_module
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.chat import frames
from apps.chat.errors import ChatError, NotAMember, SignedOut
from apps.chat.streams.cancelling import is_cancelled
from apps.chat.streams.process import SIGNED_OUT, Streams, current
from apps.chat.streams.reader import FAULTY, FLOODED, PING_S, WINDOW, Reader
from apps.chat.streams.serving import serve
from apps.gateway.errors import GatewayError
from apps.tenants.access import Access, Right, find_access
from apps.tenants.aio import in_thread

logger = logging.getLogger(__name__)

# Messages of one socket that wait to be served. A page sends a few a second.
MOST_WAITING = 32
# Beyond a burst, messages are served at this pace; whoever goes on faster fills the line.
BURST = 60
PER_SECOND = 20.0
# Rights are asked for at every message; at acknowledgements and pings, when they are this old.
RECHECK_S = 10.0


class ChatConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One page's socket. Rights are asked for on connect and again for every message."""

    # No layer of that name: no other process sends to this socket through it.
    channel_layer_alias = ""
    streams: Streams | None = None  # the process's, unless told

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._reader: Reader | None = None
        self._server: asyncio.Task[None] | None = None
        self._rights: Access | None = None
        self._asked_at = 0.0
        try:
            await super().__call__(scope, receive, send)
        finally:
            # Also where the server cancels this without a word, as Daphne does when it stops.
            await self._clean_up()

    async def connect(self) -> None:
        self._streams = self.streams or current()
        self._inbox: asyncio.Queue[str] = asyncio.Queue(MOST_WAITING)
        await self.accept()
        self._reader = Reader(
            self._streams,
            session_key=self.scope["session"].session_key,
            send=self._send_text,
            close=self.close,
        )
        self._streams.join(self._reader)
        try:
            access = await self._access()
        except ChatError as exc:
            self._reader.refuse(exc)
            return
        await self._streams.introduce(self._reader, (access.tenant.id, access.user.pk))
        self._reader.say({"type": "hello", "ping_s": PING_S, "window": WINDOW})
        self._server = asyncio.create_task(self._serve_all(self._reader), name="chat-socket")

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._reader is None:
            return
        self._reader.heard()
        try:
            # One character more than allowed says as much as all of it.
            self._inbox.put_nowait((text_data or "")[: frames.MAX_FRAME_CHARS + 1])
        except asyncio.QueueFull:
            self._reader.close(FLOODED)

    async def _clean_up(self) -> None:
        if self._server is not None:
            self._server.cancel()
        if self._reader is not None:
            await self._streams.part(self._reader)

    async def _serve_all(self, reader: Reader) -> None:
        loop = asyncio.get_running_loop()
        allowed, at = float(BURST), loop.time()
        while not is_cancelled():
            text = await self._inbox.get()
            allowed = min(BURST, allowed + (loop.time() - at) * PER_SECOND) - 1
            at = loop.time()
            if allowed < 0:
                await asyncio.sleep(-allowed / PER_SECOND)
            await self._serve_one(reader, text)

    async def _serve_one(self, reader: Reader, text: str) -> None:
        try:
            frame = frames.parse(text)
            is_light = isinstance(frame, frames.Ack | frames.Ping)
            access = await self._access(at_most_s=RECHECK_S if is_light else 0.0)
            await serve(self._streams, reader, access, frame)
        except (ChatError, GatewayError) as exc:
            reader.refuse(exc, client_id=frames.client_id_of(text))
        except Exception as exc:
            logger.error("a frame could not be served: %s", type(exc).__name__)
            logger.debug("trace", exc_info=exc)
            fault = ChatError(_("Something went wrong on our side; it has been logged. Try again."))
            client_id = frames.client_id_of(text)
            reader.refuse(fault, client_id=client_id)
            if not client_id:
                # A page cannot tell what failed: it comes back, and follows anew.
                reader.close(FAULTY)

    async def _access(self, *, at_most_s: float = 0.0) -> Access:
        """Rights as of now, or of a moment ago: a session may end, a membership be taken."""
        now = asyncio.get_running_loop().time()
        if self._rights is not None and now - self._asked_at < at_most_s:
            return self._rights
        access = await in_thread(
            _current_access,
            session_key=self.scope["session"].session_key,
            tenant_slug=self.scope["url_route"]["kwargs"]["tenant_slug"],
        )
        self._rights, self._asked_at = access, now
        return access

    async def _send_text(self, text: str) -> None:
        await self.send(text_data=text)


def _current_access(*, session_key: str | None, tenant_slug: str) -> Access:
    """Read the session anew: the one in the socket's scope is as old as the socket."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(request)
    if not user.is_authenticated:
        raise SignedOut(SIGNED_OUT)
    access = find_access(user, slug=tenant_slug)
    if access is None or not access.may(Right.CHAT):
        raise NotAMember(_("You may not chat here. Ask a tenant manager for access."))
    return access
