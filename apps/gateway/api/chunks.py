"""Events of an answer as OpenAI's clients read them: chunks of a stream, or one whole reply."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from apps.inference.types import Finished, ReasoningDelta, TextDelta, ToolCallDelta

DONE = b"data: [DONE]\n\n"


def event(payload: Mapping[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(payload) + b"\n\n"


def usage_of(finished: Finished) -> dict[str, Any]:
    """OpenAI's `usage`."""
    return {
        "prompt_tokens": finished.prompt_tokens,
        "completion_tokens": finished.completion_tokens,
        "total_tokens": finished.prompt_tokens + finished.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": finished.cached_tokens},
    }


@dataclass
class Chunks:
    """The chunks of one answer."""

    id: str
    model: str  # as it was asked for
    with_usage: bool = False
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        # Everything around a piece of text is the same each time: encoded once.
        # NUL marks its place: no name holds that.
        whole = orjson.dumps(self._chunk([_choice({"content": "\0"})]))
        before, _, after = whole.partition(b'"\\u0000"')
        self._before, self._after = b"data: " + before, after + b"\n\n"

    def opening(self) -> bytes:
        """The role comes once, before any text."""
        return event(self._chunk([_choice({"role": "assistant", "content": ""})]))

    def text(self, delta: TextDelta) -> bytes:
        return self._before + orjson.dumps(delta.text) + self._after

    def reasoning(self, delta: ReasoningDelta) -> bytes:
        """As vLLM names it; OpenAI's own chunks have no reasoning."""
        return event(self._chunk([_choice({"reasoning": delta.text})]))

    def calls(self, delta: ToolCallDelta) -> bytes:
        return event(self._chunk([_choice({"tool_calls": list(delta.calls)})]))

    def closing(self, finished: Finished, attached: Mapping[str, Any]) -> bytes:
        """The reason, with what is attached; then usage, where it was asked for; then the end."""
        last = self._chunk([_choice(_annotations(attached), finished.reason)])
        ending = event({**last, **_beside(attached)})
        if self.with_usage:
            ending += event({**self._chunk([]), "usage": usage_of(finished)})
        return ending + DONE

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        usage = {"usage": None} if self.with_usage else {}
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
            **usage,
        }


@dataclass
class Whole:
    """The same events as one reply."""

    id: str
    model: str
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)  # by their place
    attached: Mapping[str, Any] = field(default_factory=dict)

    def add(self, delta: TextDelta | ReasoningDelta | ToolCallDelta) -> None:
        match delta:
            case TextDelta():
                self.text.append(delta.text)
            case ReasoningDelta():
                self.reasoning.append(delta.text)
            case ToolCallDelta():
                merge_calls(self.calls, delta.calls)

    def reply(self, finished: Finished) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(self.text) or (None if self.calls else ""),
            "refusal": None,
            **_annotations(self.attached),
        }
        if self.reasoning:
            message["reasoning"] = "".join(self.reasoning)
        if self.calls:
            message["tool_calls"] = [self.calls[place] for place in sorted(self.calls)]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": finished.reason,
        }
        return {
            "id": self.id,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.model,
            "choices": [choice],
            "usage": usage_of(finished),
            **_beside(self.attached),
        }


def merge_calls(calls: dict[int, dict[str, Any]], pieces: Iterable[Mapping[str, Any]]) -> None:
    """Put pieces of calls to tools together: names come once, arguments bit by bit."""
    for piece in pieces:
        place = piece.get("index")
        place = place if isinstance(place, int) else len(calls)
        call = calls.setdefault(
            place, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        )
        function = piece.get("function")
        call["id"] = piece.get("id") or call["id"]
        if isinstance(function, Mapping):
            call["function"]["name"] = function.get("name") or call["function"]["name"]
            call["function"]["arguments"] += str(function.get("arguments") or "")


def _choice(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _annotations(attached: Mapping[str, Any]) -> dict[str, Any]:
    """Of what is attached, what OpenAI has in the message."""
    return {name: value for name, value in attached.items() if name == "annotations"}


def _beside(attached: Mapping[str, Any]) -> dict[str, Any]:
    """The rest stands beside `choices`."""
    return {name: value for name, value in attached.items() if name != "annotations"}
