"""The chat's websocket: connects, receives, disconnects. The work is done by `AnswerRun` tasks."""

from __future__ import annotations

import asyncio
import logging
import uuid
from importlib import import_module
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest

from apps.chat import frames
from apps.chat.errors import Busy, ChatError, NotAMember, SignedOut
from apps.chat.runner import AnswerRun, find_run, is_answering
from apps.chat.services import StartedAnswer, restart_answer, start_answer
from apps.gateway.errors import GatewayError
from apps.tenants.access import Access, Right, find_access
from apps.tenants.aio import in_thread

logger = logging.getLogger(__name__)

CLOSE_CODES = {"signed_out": 4401, "not_a_member": 4403, "frame_too_large": 1009}


class ChatConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One page's socket. Rights are asked for on connect and again for every message."""

    # No layer of that name: no other process sends to this socket, so it outlives Redis.
    channel_layer_alias = ""

    async def connect(self) -> None:
        self._runs: set[AnswerRun] = set()
        self._outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        await self.accept()
        self._sender = asyncio.create_task(self._send_frames())
        try:
            await self._access()
        except ChatError as exc:
            await self._refuse(exc)
            return
        self._watch({"type": "hello"})

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        text = text_data or ""
        try:
            frame = frames.parse(text)
            access = await self._access()
            await self._serve(access, frame)
        except (ChatError, GatewayError) as exc:
            await self._refuse(exc, client_id=frames.client_id_of(text))
        except Exception as exc:
            logger.error("a frame could not be served: %s", type(exc).__name__)
            logger.debug("trace", exc_info=exc)
            fault = ChatError("Something went wrong on our side; it has been logged. Try again.")
            await self._refuse(fault, client_id=frames.client_id_of(text))

    async def disconnect(self, code: int) -> None:
        try:
            await asyncio.gather(*(run.leave(self._watch) for run in list(self._runs)))
        finally:
            self._sender.cancel()

    async def _serve(self, access: Access, frame: frames.ClientFrame) -> None:
        if isinstance(frame, frames.Ping):
            self._watch({"type": "pong"})
        elif isinstance(frame, frames.Stop):
            run = find_run(frame.answer_id)
            # Someone else's answer is as unknown here as one that has ended.
            if run is not None and run.access.user.pk == access.user.pk:
                run.stop()
        elif isinstance(frame, frames.Regenerate):
            started = await in_thread(
                restart_answer, access=access, answer_id=frame.answer_id, model_alias=frame.model
            )
            self._begin(access, started, frame.id)
        elif isinstance(frame, frames.Ask):
            self._refuse_when_busy(frame.conversation_id)
            answers = await in_thread(
                start_answer,
                access=access,
                question=frame.question,
                conversation_id=frame.conversation_id,
                after=frame.after,
                collection_ids=frame.collection_ids,
                model_aliases=frame.models,
            )
            for started in answers:
                self._begin(access, started, frame.id)

    def _begin(self, access: Access, started: StartedAnswer, client_id: str) -> None:
        run = AnswerRun(access, started, client_id=client_id)
        self._runs.add(run)
        run.start(self._watch)

    def _refuse_when_busy(self, conversation_id: uuid.UUID | None) -> None:
        if conversation_id is not None and is_answering(conversation_id):
            raise Busy("This conversation is still being answered. Wait for it, or stop it.")

    async def _access(self) -> Access:
        """Rights as of now: the session may have ended, the membership may have been taken."""
        return await in_thread(
            _current_access,
            session_key=self.scope["session"].session_key,
            tenant_slug=self.scope["url_route"]["kwargs"]["tenant_slug"],
        )

    async def _refuse(self, exc: ChatError | GatewayError, *, client_id: str = "") -> None:
        self._watch(frames.error(exc, client_id=client_id))
        if exc.code in CLOSE_CODES:
            await self._outbox.join()
            await self.close(code=CLOSE_CODES[exc.code])

    def _watch(self, frame: dict[str, Any]) -> None:
        """Queue a frame for this socket; never blocks the answer's task."""
        if frame["type"] == "answer.finished":
            self._runs = {r for r in self._runs if str(r.started.answer_id) != frame["answer"]}
        self._outbox.put_nowait(frame)

    async def _send_frames(self) -> None:
        while True:
            frame = await self._outbox.get()
            try:
                await self.send(text_data=frames.encode(frame))
            finally:
                self._outbox.task_done()


def _current_access(*, session_key: str | None, tenant_slug: str) -> Access:
    """Read the session anew: the one in the socket's scope is as old as the socket."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(request)
    if not user.is_authenticated:
        raise SignedOut("You have been signed out. Sign in again.")
    access = find_access(user, slug=tenant_slug)
    if access is None or not access.may(Right.CHAT):
        raise NotAMember("You may not chat here. Ask a tenant manager for access.")
    return access
