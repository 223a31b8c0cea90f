"""The websocket's frames: what may come in, and how what goes out is written.

Version 1. Frames about an answer carry its id and a sequence number from 0. `docs/streaming.md`
describes each for people who write clients.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.chat.errors import ChatError, FrameMalformed, FrameTooLarge
from apps.gateway.errors import GatewayError
from apps.retrieval.types import Passage
from apps.telemetry.hops import Hop

VERSION = 1
MAX_FRAME_CHARS = 64 * 1024
MAX_COLLECTIONS = 200
SNIPPET_CHARS = 240


@dataclass(frozen=True)
class Ask:
    """A new question, in a conversation or opening one."""

    id: str  # the client's own, echoed
    conversation_id: uuid.UUID | None
    collection_ids: tuple[uuid.UUID, ...]
    model: str
    question: str


@dataclass(frozen=True)
class Regenerate:
    """The same question again."""

    id: str
    answer_id: uuid.UUID
    model: str


@dataclass(frozen=True)
class Stop:
    """End an answer; what was written is kept."""

    answer_id: uuid.UUID


@dataclass(frozen=True)
class Ping:
    """Are you there?"""


ClientFrame = Ask | Regenerate | Stop | Ping


def parse(text: str) -> ClientFrame:
    """Read a client's frame; raises FrameTooLarge or FrameMalformed with words for the client."""
    if len(text) > MAX_FRAME_CHARS:
        raise FrameTooLarge(f"A message may have {MAX_FRAME_CHARS // 1024} KiB at most.")
    try:
        # A lone surrogate (JSON can escape one) is no text: PostgreSQL and encoders refuse it.
        data = json.loads(text.encode("utf-8", "replace"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        raise FrameMalformed("The message is not valid JSON.") from exc
    if not isinstance(data, dict):
        raise FrameMalformed("The message is not a JSON object.")
    if data.get("v") != VERSION:
        raise FrameMalformed("The page is from another version of the site. Reload it.")
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in _READERS:
        raise FrameMalformed("The message is of no known type.")
    return _READERS[kind](data)


def client_id_of(text: str) -> str:
    """The client's id of a frame that could not be served, so that it can tell which one."""
    try:
        data = json.loads(text) if len(text) <= MAX_FRAME_CHARS else None
        return str(data.get("id", ""))[:64] if isinstance(data, dict) else ""
    except (ValueError, RecursionError):
        return ""


def error(exc: ChatError | GatewayError, *, client_id: str = "") -> dict[str, Any]:
    return {"type": "error", "code": exc.code, "message": str(exc), "id": client_id}


def hop(measured: Hop, state: str) -> dict[str, Any]:
    return {"type": "answer.hop", "state": state, **hop_figures(measured)}


def hop_figures(measured: Hop) -> dict[str, Any]:
    return {
        "hop": measured.name,
        "status": measured.status,
        "wait_ms": round(measured.wait_ms, 1),
        "work_ms": round(measured.work_ms, 1),
    }


def source(marker: int, citation_id: uuid.UUID, passage: Passage) -> dict[str, Any]:
    return {
        "marker": marker,
        "citation": str(citation_id),
        "document": str(passage.document_id),
        "document_name": passage.document_name,
        "heading": passage.heading_path,
        "page_first": passage.page_first,
        "page_last": passage.page_last,
        "score": round(passage.score, 4),
        "relevance": round(passage.relevance, 4),
        "snippet": " ".join(passage.text.split())[:SNIPPET_CHARS],
    }


def encode(frame: dict[str, Any]) -> str:
    return json.dumps({"v": VERSION, **frame}, ensure_ascii=False, separators=(",", ":"))


def _ask(data: dict[str, Any]) -> Ask:
    collections = data.get("collections")
    if not isinstance(collections, list) or len(collections) > MAX_COLLECTIONS:
        raise FrameMalformed("`collections` must be a list of collection ids.")
    conversation = data.get("conversation")
    return Ask(
        id=_text(data, "id", limit=64),
        conversation_id=None if conversation is None else _uuid(conversation, "conversation"),
        collection_ids=tuple(_uuid(each, "collections") for each in collections),
        model=_text(data, "model", limit=100, default=""),
        question=_text(data, "question", limit=MAX_FRAME_CHARS),
    )


def _regenerate(data: dict[str, Any]) -> Regenerate:
    return Regenerate(
        id=_text(data, "id", limit=64),
        answer_id=_uuid(data.get("answer"), "answer"),
        model=_text(data, "model", limit=100, default=""),
    )


def _stop(data: dict[str, Any]) -> Stop:
    return Stop(answer_id=_uuid(data.get("answer"), "answer"))


_READERS: dict[str, Callable[[dict[str, Any]], ClientFrame]] = {
    "ask": _ask,
    "regenerate": _regenerate,
    "stop": _stop,
    "ping": lambda data: Ping(),
}


def _text(data: dict[str, Any], key: str, *, limit: int, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str) or len(value) > limit:
        raise FrameMalformed(f"`{key}` must be text of at most {limit} characters.")
    return value.encode("utf-8", "replace").decode().replace("\x00", "")


def _uuid(value: object, key: str) -> uuid.UUID:
    if not isinstance(value, str) or len(value) > 36:
        raise FrameMalformed(f"`{key}` must hold ids.")
    try:
        return uuid.UUID(value)
    except ValueError as exc:
        raise FrameMalformed(f"`{key}` must hold ids.") from exc


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
