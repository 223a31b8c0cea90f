"""A client of the site as a browser is one: the login form over HTTP, the chat over a websocket."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

_LOGIN = "/accounts/login/"
_VERSION = 2  # of the protocol, see docs/streaming.md
_ACK_EVERY = 16  # frames; the server sends only so many that are not acknowledged


class ClientFailed(RuntimeError):
    """The site did not do what a browser would have expected of it."""


@dataclass
class Answer:
    """What came over the websocket for one question."""

    text: str = ""
    sources: list[dict[str, Any]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    finished: dict[str, Any] = field(default_factory=dict)
    first_token_ms: float | None = None  # from the question's sending

    @property
    def cited(self) -> list[dict[str, Any]]:
        """The sources that the answer cites, in order of their markers."""
        markers = set(self.finished.get("cited") or ())
        return [source for source in self.sources if source["marker"] in markers]

    @property
    def hops(self) -> list[dict[str, Any]]:
        return self.finished.get("hops") or []

    @property
    def problems(self) -> list[str]:
        """Why this answer is not what a healthy stack gives; empty when it is."""
        failed = [
            f"hop {hop['hop']}: {hop['status']}"
            for hop in self.hops
            if hop["status"] in ("error", "degraded")
        ]
        if self.finished.get("state") != "complete":
            failed.append(f"the answer ended as {self.finished.get('state')}")
        if not self.cited:
            failed.append("the answer cites nothing")
        return failed


def sign_in(site: str, *, email: str, password: str) -> str:
    """Sign in through the login form; the `Cookie` header of the session.

    Raises ClientFailed when the site refuses.
    """
    # Not through a proxy: the site is on this machine.
    with httpx.Client(base_url=site, trust_env=False, timeout=30.0) as client:
        client.get(_LOGIN).raise_for_status()
        form = {
            "login": email,
            "password": password,
            "csrfmiddlewaretoken": client.cookies.get("csrftoken", ""),
        }
        answer = client.post(_LOGIN, data=form, headers={"Referer": site + _LOGIN})
        if "sessionid" not in client.cookies:
            raise ClientFailed(f"signing in as {email} was refused (HTTP {answer.status_code})")
        return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


@contextmanager
def open_chat(
    site: str, tenant_slug: str, *, cookie: str, origin: str = ""
) -> Iterator[ClientConnection]:
    """The chat's websocket, opened as the site's own page would. Raises ClientFailed.

    `origin`: of the page, where that is not `site` itself.
    """
    url = f"{site.replace('http', 'ws', 1)}/ws/t/{tenant_slug}/chat/"
    with ExitStack() as opened:
        try:
            chat = opened.enter_context(
                connect(
                    url,
                    origin=Origin(origin or site),
                    additional_headers={"Cookie": cookie},
                    proxy=None,
                )
            )
        except (WebSocketException, OSError) as exc:
            raise ClientFailed(f"the websocket {url} was refused: {exc}") from exc
        hello = _receive(chat)
        if hello["type"] != "hello":
            raise ClientFailed(f"the websocket greeted with {hello}")
        yield chat


def ask(
    chat: ClientConnection,
    question: str,
    *,
    collections: list[str],
    model: str = "",
    on_text: Callable[[str], None] = lambda text: None,
) -> Answer:
    """Ask in a new conversation and follow the answer to its end. Raises ClientFailed."""
    answer, client_id = Answer(), str(uuid.uuid4())
    sent = time.perf_counter()
    _send(
        chat,
        type="ask",
        id=client_id,
        conversation=None,
        after=None,
        collections=collections,
        models=[model] if model else [],
        question=question,
    )
    while not answer.finished:
        frame = _receive(chat)
        if frame.get("seq", 0) % _ACK_EVERY == _ACK_EVERY - 1:
            _send(chat, type="ack", answer=frame["answer"], seq=frame["seq"])
        if frame["type"] == "answer.tokens":
            if answer.first_token_ms is None:
                answer.first_token_ms = (time.perf_counter() - sent) * 1000
            on_text(frame["text"])
        _take(answer, frame)
    return answer


def _take(answer: Answer, frame: dict[str, Any]) -> None:
    if frame["type"] == "answer.tokens":
        answer.text += frame["text"]
    elif frame["type"] == "answer.sources":
        answer.sources = frame["sources"]
    elif frame["type"] == "answer.notice":
        answer.notices.append(frame["message"])
    elif frame["type"] == "answer.finished":
        answer.finished = frame
    elif frame["type"] == "error":
        raise ClientFailed(f"{frame['code']}: {frame['message']}")


def _send(chat: ClientConnection, **frame: Any) -> None:
    chat.send(json.dumps({"v": _VERSION, **frame}))


def _receive(chat: ClientConnection) -> dict[str, Any]:
    try:
        frame: dict[str, Any] = json.loads(chat.recv(timeout=180))
    except (WebSocketException, TimeoutError) as exc:
        raise ClientFailed(f"the websocket broke off: {exc}") from exc
    return frame
