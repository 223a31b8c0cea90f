"""The websocket's frames: what may come in, and how what goes out is written.

Version 2. Frames about an answer carry its id and a sequence number from 0. `docs/streaming.md`
describes each for people who write clients.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from apps.chat.errors import ChatError, FrameMalformed, FrameTooLarge
from apps.chat.pipeline.types import Outcome
from apps.chat.services import StartedAnswer
from apps.gateway.errors import GatewayError
from apps.retrieval.types import Passage
from apps.telemetry.hops import Hop
from apps.tenants.money import format_money

VERSION = 2
MAX_FRAME_CHARS = 64 * 1024
MAX_COLLECTIONS = 200
MAX_MODELS = 2
MAX_SEQ = 2**31
SNIPPET_CHARS = 240


@dataclass(frozen=True)
class Ask:
    """A new question, in a conversation or opening one."""

    id: str  # the client's own, echoed
    conversation_id: uuid.UUID | None
    after: uuid.UUID | None  # the answer it follows
    collection_ids: tuple[uuid.UUID, ...]
    models: tuple[str, ...]  # aliases: none for the first there is, two for a comparison
    question: str


@dataclass(frozen=True)
class Regenerate:
    """The same question again."""

    id: str
    answer_id: uuid.UUID
    model: str


@dataclass(frozen=True)
class Continue:
    """Go on from an answer that was stopped or broke off."""

    id: str
    answer_id: uuid.UUID


@dataclass(frozen=True)
class Follow:
    """Send an answer's frames from the one after `after` on."""

    answer_id: uuid.UUID
    after: int  # -1 for all


@dataclass(frozen=True)
class Ack:
    """Frames up to `seq` have arrived."""

    answer_id: uuid.UUID
    seq: int


@dataclass(frozen=True)
class Stop:
    """End an answer; what was written is kept."""

    answer_id: uuid.UUID


@dataclass(frozen=True)
class Ping:
    """Are you there?"""


ClientFrame = Ask | Regenerate | Continue | Follow | Ack | Stop | Ping


def parse(text: str) -> ClientFrame:
    """Read a client's frame; raises FrameTooLarge or FrameMalformed with words for the client."""
    if len(text) > MAX_FRAME_CHARS:
        raise FrameTooLarge(
            _("A message may have %(size)s KiB at most.") % {"size": MAX_FRAME_CHARS // 1024}
        )
    try:
        # A lone surrogate (JSON can escape one) is no text: PostgreSQL and encoders refuse it.
        data = json.loads(text.encode("utf-8", "replace"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        raise FrameMalformed("The message is not valid JSON.") from exc
    if not isinstance(data, dict):
        raise FrameMalformed("The message is not a JSON object.")
    if data.get("v") != VERSION:
        raise FrameMalformed(_("The page is from another version of the site. Reload it."))
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
    return {"type": "error", "code": exc.code, "message": _(str(exc)), "id": client_id}


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


def asked(started: Sequence[StartedAnswer]) -> dict[str, Any]:
    """For a person's other pages: a question, and the answers that are being written to it."""
    first = started[0]
    return {
        "type": "conversation.asked",
        "conversation": str(first.conversation_id),
        "title": first.title,
        "question": {
            "id": str(first.question_id),
            "text": first.question,
            "after": id_or_none(first.after),
        },
        "answers": [
            {
                "id": str(each.answer_id),
                "model": each.model,
                "comparison": id_or_none(each.comparison),
                "continues": id_or_none(each.continues),
            }
            for each in started
        ],
    }


def started(answer: StartedAnswer, client_id: str) -> dict[str, Any]:
    """The first frame of an answer."""
    return {
        "type": "answer.started",
        "id": client_id,
        "conversation": str(answer.conversation_id),
        "title": answer.title,
        "question": str(answer.question_id),
        "after": id_or_none(answer.after),
        "model": answer.model,
        "comparison": id_or_none(answer.comparison),
        "continues": id_or_none(answer.continues),
    }


def id_or_none(value: uuid.UUID | None) -> str | None:
    return None if value is None else str(value)


def finished(
    *,
    state: str,
    outcome: Outcome,
    html: str,
    total_ms: float,
    hops: Sequence[Hop] | None = None,
    failure: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """The last frame of an answer. `hops` only for those who may see figures."""
    tokens = {
        "prompt": outcome.prompt_tokens,
        "completion": outcome.completion_tokens,
        "estimated": outcome.tokens_estimated,
    }
    return {
        "type": "answer.finished",
        "state": str(state),
        "kind": outcome.kind,
        "cache": outcome.cache,
        "html": html,
        "cited": list(outcome.cited),
        "tokens": tokens if hops is not None else None,
        "cost": _cost(outcome) if hops is not None else None,
        "hops": [hop_figures(hop) for hop in hops] if hops is not None else None,
        "total_ms": round(total_ms, 1),
        "follow_ups": list(outcome.follow_ups),
        "error": {"code": failure[0], "message": _(failure[1])} if failure else None,
    }


def _cost(outcome: Outcome) -> str | None:
    """In words; nothing where no model was asked."""
    return None if outcome.cost_micros is None else format_money(outcome.cost_micros)


def of_answer(frame: dict[str, Any], answer_id: uuid.UUID, seq: int) -> str:
    """A frame about an answer as it is sent and kept; its type stands first."""
    return encode({**frame, "answer": str(answer_id), "seq": seq})


def encode(frame: dict[str, Any]) -> str:
    return json.dumps({"v": VERSION, **frame}, ensure_ascii=False, separators=(",", ":"))


def _ask(data: dict[str, Any]) -> Ask:
    collections = data.get("collections")
    if not isinstance(collections, list) or len(collections) > MAX_COLLECTIONS:
        raise FrameMalformed("`collections` must be a list of collection ids.")
    models = data.get("models")
    if not isinstance(models, list) or len(models) > MAX_MODELS:
        raise FrameMalformed(f"`models` must be a list of at most {MAX_MODELS} aliases.")
    return Ask(
        id=_text(data, "id", limit=64),
        conversation_id=_uuid_or_none(data, "conversation"),
        after=_uuid_or_none(data, "after"),
        collection_ids=tuple(_uuid(each, "collections") for each in collections),
        models=tuple(_alias(each) for each in models),
        question=_text(data, "question", limit=MAX_FRAME_CHARS),
    )


def _regenerate(data: dict[str, Any]) -> Regenerate:
    return Regenerate(
        id=_text(data, "id", limit=64),
        answer_id=_uuid(data.get("answer"), "answer"),
        model=_text(data, "model", limit=100, default=""),
    )


def _continue(data: dict[str, Any]) -> Continue:
    return Continue(id=_text(data, "id", limit=64), answer_id=_uuid(data.get("answer"), "answer"))


def _follow(data: dict[str, Any]) -> Follow:
    return Follow(answer_id=_uuid(data.get("answer"), "answer"), after=_seq(data, "after", -1))


def _ack(data: dict[str, Any]) -> Ack:
    return Ack(answer_id=_uuid(data.get("answer"), "answer"), seq=_seq(data, "seq", 0))


def _stop(data: dict[str, Any]) -> Stop:
    return Stop(answer_id=_uuid(data.get("answer"), "answer"))


_READERS: dict[str, Callable[[dict[str, Any]], ClientFrame]] = {
    "ask": _ask,
    "regenerate": _regenerate,
    "continue": _continue,
    "follow": _follow,
    "ack": _ack,
    "stop": _stop,
    "ping": lambda data: Ping(),
}


def _text(data: dict[str, Any], key: str, *, limit: int, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str) or len(value) > limit:
        raise FrameMalformed(f"`{key}` must be text of at most {limit} characters.")
    return value.encode("utf-8", "replace").decode().replace("\x00", "")


def _alias(value: object) -> str:
    return _text({"models": value}, "models", limit=100)


def _seq(data: dict[str, Any], key: str, least: int) -> int:
    value = data.get(key)
    # JSON's true is Python's 1.
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_SEQ:
        raise FrameMalformed(f"`{key}` must be the number of a frame.")
    return value


def _uuid_or_none(data: dict[str, Any], key: str) -> uuid.UUID | None:
    return None if data.get(key) is None else _uuid(data[key], key)


def _uuid(value: object, key: str) -> uuid.UUID:
    if not isinstance(value, str) or len(value) > 36:
        raise FrameMalformed(f"`{key}` must hold ids.")
    try:
        return uuid.UUID(value)
    except ValueError as exc:
        raise FrameMalformed(f"`{key}` must hold ids.") from exc


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
