"""The stream of `/v1/chat/completions`, which TGI, vLLM, SGLang and llama.cpp all speak.

They differ (see the table in the tests' doubles): role in every delta or in the first, content
null or "" in it, the finish reason with the last token or in a chunk of its own, the usage chunk
with or without choices, an error as JSON event or as a bare `error:` field, `[DONE]` after it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from apps.inference import errors
from apps.inference.generators.sse import EventTooLarge, ServerEvent, server_events
from apps.inference.generators.tokens import estimate_tokens, template_tokens
from apps.inference.replies import Fault, fault_of_body, in_band, parse_fault
from apps.inference.transport import Server, open_stream, timed_out
from apps.inference.types import Finished, GenerationRequest, TextDelta

TokenCounter = Callable[[str], Awaitable[int]]

_DONE = "[DONE]"
# Reasons that end an answer before the model was through with it.
_BROKEN = {"abort", "error", "cancelled"}


@dataclass
class ChatStream:
    """What has been read of one stream so far."""

    server: Server
    reason: Literal["stop", "length"] | None = None
    usage: tuple[int, int] | None = None  # tokens of prompt and completion
    details: dict[str, float] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)

    def read(self, event: ServerEvent) -> str:
        """The text that `event` adds, often empty. Raises an InferenceError for an error."""
        if event.error:
            raise in_band(self.server.where, fault_of_body(event.error.encode()))
        chunk = self._decoded(event.data)
        fault = parse_fault(chunk)
        if fault is not None:
            raise in_band(self.server.where, fault)
        self._note_usage(chunk)
        choices = chunk.get("choices")
        return self._note_choice(choices[0]) if isinstance(choices, list) and choices else ""

    def _decoded(self, data: str) -> Mapping[str, Any]:
        try:
            chunk = json.loads(data)
        except ValueError as exc:
            raise self._unreadable() from exc
        if not isinstance(chunk, dict):
            raise self._unreadable()
        return chunk

    def _note_usage(self, chunk: Mapping[str, Any]) -> None:
        usage, timings = chunk.get("usage"), chunk.get("timings")
        if isinstance(usage, dict):
            prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
            if isinstance(prompt, int) and isinstance(completion, int):
                self.usage = prompt, completion
        if isinstance(timings, dict):
            numbers = ((k, v) for k, v in timings.items() if isinstance(v, int | float))
            self.details = {key: float(value) for key, value in numbers}

    def _note_choice(self, choice: Any) -> str:
        if not isinstance(choice, dict):
            raise self._unreadable()
        reason = choice.get("finish_reason")
        if reason in _BROKEN:
            raise in_band(self.server.where, Fault("", str(reason)))
        if reason:
            # TGI names the stop string (`stop_sequence`), others the token (`eos_token`).
            self.reason = "length" if reason == "length" else "stop"
        delta = choice.get("delta")
        content = delta.get("content") if isinstance(delta, dict) else None
        if not isinstance(content, str):
            return ""
        self.text.append(content)
        return content

    def _unreadable(self) -> errors.ProtocolError:
        return errors.ProtocolError(
            f"{self.server.where} sent an event that is no chat completion chunk. "
            "Check that the address is that of the right kind of server."
        )


def chat_payload(request: GenerationRequest, *, model: str) -> dict[str, Any]:
    """The request body that every server takes.

    TGI rejects what OpenAI allows: `stop` as a string, null for absent, `top_p` of 1. So stop is
    always an array, and what is not set is left out.
    """
    payload: dict[str, Any] = {
        "messages": [{"role": turn.role, "content": turn.content} for turn in request.turns],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if model:
        payload["model"] = model
    if request.stop:
        payload["stop"] = list(request.stop)
    if request.seed is not None:
        payload["seed"] = request.seed
    return payload


async def stream_chat(
    stream: ChatStream,
    url: str,
    payload: Mapping[str, Any],
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncGenerator[TextDelta, None]:
    """Yield the text of one chat completion; `stream` tells reason and usage afterwards.

    Raises an InferenceError for anything but a complete answer: TimedOut when no event came for
    the server's `timeout_s` (keep-alive comments are no events), Interrupted when the stream ended
    without a finish reason. Closing the iterator closes the connection.
    """
    server = stream.server
    async with aclosing(_events(server, url, payload, transport)) as events:
        while (event := await _next_event(events, server)) is not None and event.data != _DONE:
            if text := stream.read(event):
                yield TextDelta(text)
    if stream.reason is None:
        raise errors.Interrupted(
            f"{server.where} ended its stream before the answer was finished. Try again."
        )


async def _events(
    server: Server,
    url: str,
    payload: Mapping[str, Any],
    transport: httpx.AsyncBaseTransport | None,
) -> AsyncGenerator[ServerEvent, None]:
    async with open_stream(server, "POST", url, body=payload, transport=transport) as response:
        if "text/event-stream" not in response.headers.get("content-type", ""):
            await response.aread()
            fault = fault_of_body(response.content)
            if fault.kind or fault.status:
                raise in_band(server.where, fault)
            raise errors.ProtocolError(
                f"{server.where} did not answer with a stream of events. "
                "Check that the address is that of the right kind of server."
            )
        async with aclosing(server_events(response.aiter_bytes())) as events:
            async for event in events:
                yield event


async def _next_event(events: AsyncIterator[ServerEvent], server: Server) -> ServerEvent | None:
    try:
        async with asyncio.timeout(server.timeout_s):
            return await anext(events, None)
    except TimeoutError as exc:
        raise timed_out(server) from exc
    except EventTooLarge as exc:
        raise errors.ProtocolError(
            f"{server.where} sent an event too large for a chat completion chunk."
        ) from exc


async def finish(
    stream: ChatStream, request: GenerationRequest, count_tokens: TokenCounter
) -> Finished:
    """The last event; counted here and marked as estimated where the server gave no usage."""
    reason = stream.reason or "stop"
    if stream.usage is not None:
        return Finished(reason, *stream.usage, details=stream.details)
    prompt = "\n".join(turn.content for turn in request.turns)
    return Finished(
        reason,
        prompt_tokens=await _count(prompt, count_tokens) + template_tokens(request.turns),
        completion_tokens=await _count("".join(stream.text), count_tokens),
        estimated=True,
        details=stream.details,
    )


async def _count(text: str, count_tokens: TokenCounter) -> int:
    try:
        return await count_tokens(text)
    except errors.InferenceError:
        return estimate_tokens(text)  # the answer is complete: it is not lost over a count
