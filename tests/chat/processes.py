"""Sockets of several web processes, in one: each has what a process keeps in memory for itself."""

from __future__ import annotations

import json
import uuid
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.urls import path

from apps.chat.consumers import ChatConsumer
from apps.chat.streams.process import Streams
from apps.inference.per_loop import PerLoop
from apps.tenants.aio import in_thread
from apps.tenants.models import User
from tests.cast import signed_in
from tests.chat.test_consumer import frame_of

Frame = dict[str, Any]


async def _close(opened: list[Streams]) -> None:
    for streams in opened:
        await streams.close()


# As a process's own are: what they still have to do must not outlive a test's event loop.
_opened: PerLoop[list[Streams]] = PerLoop(list, _close)


class WebProcess:
    """A process's streams, and an application whose sockets are there."""

    def __init__(self) -> None:
        self.streams = Streams()
        _opened.get().append(self.streams)
        consumer = type("Consumer", (ChatConsumer,), {"streams": self.streams})
        route = path("ws/t/<slug:tenant_slug>/chat/", consumer.as_asgi())
        self.application = AuthMiddlewareStack(URLRouter([route]))

    async def socket(self, user: User) -> WebsocketCommunicator:
        """A socket of that person, which has said hello."""
        client = await in_thread(signed_in, user)
        cookie = f"sessionid={client.cookies['sessionid'].value}".encode()
        socket = WebsocketCommunicator(self.application, "/ws/t/acme/chat/", [(b"cookie", cookie)])
        accepted, _ = await socket.connect()
        assert accepted
        assert (await frame_of(socket))["type"] == "hello"
        return socket


async def say(socket: WebsocketCommunicator, **fields: Any) -> None:
    await socket.send_to(text_data=json.dumps({"v": 2, **fields}))


async def follow(socket: WebsocketCommunicator, answer: str | uuid.UUID, after: int) -> None:
    await say(socket, type="follow", answer=str(answer), after=after)


async def rest_of(socket: WebsocketCommunicator, answer: str | uuid.UUID) -> list[Frame]:
    """That answer's frames up to its last, acknowledged as they come."""
    frames: list[Frame] = []
    while True:
        frame = await frame_of(socket, timeout_s=20)
        if frame.get("answer") != str(answer):
            continue
        frames.append(frame)
        if frame["type"] in ("answer.finished", "answer.gone"):
            return frames
        await say(socket, type="ack", answer=str(answer), seq=frame["seq"])


def seqs(frames: list[Frame]) -> list[int]:
    return [frame["seq"] for frame in frames]


def text_of(frames: list[Frame]) -> str:
    return "".join(frame["text"] for frame in frames if frame["type"] == "answer.tokens")
