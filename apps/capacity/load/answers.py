"""What is read of one reply: a chat stream as TGI, vLLM, SGLang, llama.cpp or this site write it.

They differ as apps.inference.generators.chat_stream says. Here only times and counts are kept.
"""

from __future__ import annotations

from array import array
from typing import Any

import orjson

from apps.inference.generators.sse import EventDecoder, EventTooLarge, ServerEvent
from apps.inference.replies import Fault, fault_of_body, in_band, parse_fault

_DONE = "[DONE]"
_BODY_BYTES = 64 * 1024  # of a reply that is no stream
_TEXT_CHARS = 4_000_000  # of an answer that is to be counted again
_TEXTS = ("content", "reasoning_content", "reasoning")
_BROKEN = {"abort", "error", "cancelled"}  # reasons that end an answer before its end


class Answer:
    """A `wire.Reply` with a stream of events. Times are the loop's."""

    __slots__ = (
        "_body",
        "_decoder",
        "_is_stream",
        "_keeps_text",
        "_kept_chars",
        "_most_pieces",
        "begun_s",
        "cached_tokens",
        "end_s",
        "finish",
        "first_s",
        "is_whole",
        "last_s",
        "output_tokens",
        "piece_count",
        "pieces",
        "prompt_tokens",
        "sent_s",
        "status",
        "text",
    )

    def __init__(self, *, most_pieces: int, keeps_text: bool = False) -> None:
        self.begun_s: float | None = None
        self.sent_s: float | None = None
        self.first_s: float | None = None
        self.last_s: float | None = None
        self.end_s: float | None = None
        self.is_whole = False
        self.status = 0
        self.finish = ""
        self.prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.piece_count = 0
        self.pieces = array("d")  # times of the first `most_pieces`
        self.text: list[str] = []
        self._most_pieces = most_pieces
        self._keeps_text = keeps_text
        self._kept_chars = 0
        self._is_stream = False
        self._decoder = EventDecoder()
        self._body = b""

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> str:
        self.status = status
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            return "compressed"  # compression holds pieces back; we have asked for none
        kind = headers.get(b"content-type", b"").lower()
        self._is_stream = status == 200 and b"text/event-stream" in kind
        return ""

    def on_body(self, data: bytes, at: float) -> str:
        if not self._is_stream:
            self._body += data[: _BODY_BYTES - len(self._body)]
            return "" if len(self._body) < _BODY_BYTES else self.fault_of_reply()
        try:
            for event in self._decoder.feed(data):
                if code := self._note(event, at):
                    return code
        except EventTooLarge:
            return "too_large"
        return ""

    def fault_of_reply(self) -> str:
        """The code of a reply that has ended; "" for a stream that said why its answer ended."""
        if self.status != 200:
            return f"http_{self.status}"
        if not self._is_stream:
            fault = fault_of_body(self._body)
            return _in_band(fault) if fault.kind or fault.status else "not_events"
        if not self.finish:
            return "no_end"
        return "" if self.first_s is not None else "no_text"

    def _note(self, event: ServerEvent, at: float) -> str:
        if self.is_whole:
            return ""  # whatever follows its end
        if event.data == _DONE:
            self.is_whole, self.end_s = True, at
            return ""
        if event.error:
            return _in_band(fault_of_body(event.error.encode()))
        try:
            chunk = orjson.loads(event.data)
        except ValueError:
            return "not_a_chunk"
        if not isinstance(chunk, dict):
            return "not_a_chunk"
        if "error" in chunk and (fault := parse_fault(chunk)) is not None:
            return _in_band(fault)
        self._note_usage(chunk)
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices:
            return self._note_choice(choices[0], at)
        return ""

    def _note_choice(self, choice: Any, at: float) -> str:
        if not isinstance(choice, dict):
            return "not_a_chunk"
        delta = choice.get("delta")
        if isinstance(delta, dict) and self._has_text(delta):
            if self.first_s is None:
                self.first_s = at
            self.last_s = at
            self.piece_count += 1
            if self.piece_count <= self._most_pieces:
                self.pieces.append(at)
        if reason := choice.get("finish_reason"):
            if reason in _BROKEN:
                return "in_band_interrupted"
            self.finish = str(reason)[:40]
        return ""

    def _has_text(self, delta: dict[str, Any]) -> bool:
        """Reasoning and calls of tools are output that somebody waits for, too."""
        for name in _TEXTS:
            if isinstance(text := delta.get(name), str) and text:
                if self._keeps_text and self._kept_chars < _TEXT_CHARS:
                    self.text.append(text)
                    self._kept_chars += len(text)
                return True
        return bool(delta.get("tool_calls"))

    def _note_usage(self, chunk: dict[str, Any]) -> None:
        usage, timings = chunk.get("usage"), chunk.get("timings")
        if isinstance(usage, dict):
            prompt, output = (
                _count(usage.get("prompt_tokens")),
                _count(usage.get("completion_tokens")),
            )
            if prompt is not None and output is not None:
                self.prompt_tokens, self.output_tokens = prompt, output
            details = usage.get("prompt_tokens_details")
            if isinstance(details, dict):
                cached = _count(details.get("cached_tokens"))
                self.cached_tokens = self.cached_tokens if cached is None else cached
        if isinstance(timings, dict) and self.cached_tokens is None:
            self.cached_tokens = _count(timings.get("cache_n"))


class Body:
    """A `wire.Reply` that is kept whole, up to `most_bytes`."""

    def __init__(self, most_bytes: int = 4 * 1024 * 1024) -> None:
        self.begun_s: float | None = None
        self.sent_s: float | None = None
        self.end_s: float | None = None
        self.is_whole = False
        self.status = 0
        self.content = bytearray()
        self._most_bytes = most_bytes

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> str:
        self.status = status
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        return "" if encoding == b"identity" else "compressed"

    def on_body(self, data: bytes, at: float) -> str:
        if len(self.content) + len(data) > self._most_bytes:
            return "too_large"
        self.content += data
        return ""


def _in_band(fault: Fault) -> str:
    return f"in_band_{in_band('', fault).code}"


def _count(value: object) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40
    return value if known else None  # type: ignore[return-value]
