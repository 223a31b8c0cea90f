"""The stream of `/v1/chat/completions`, which TGI, vLLM, SGLang and llama.cpp all speak.

They differ (see the table in the tests' doubles): role in every delta or in the first, content
null or "" in it, the finish reason with the last token or in a chunk of its own, the usage chunk
with or without choices, an error as JSON event or as a bare `error:` field, `[DONE]` after it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx
import orjson

from apps.inference import errors
from apps.inference.generators.sse import EventDecoder, EventTooLarge, ServerEvent
from apps.inference.generators.tokens import estimate_tokens, prompt_text, template_tokens
from apps.inference.patience import Patience
from apps.inference.replies import Fault, fault_of_body, in_band, parse_fault
from apps.inference.transport import Server, open_stream, timed_out
from apps.inference.types import (
    Finished,
    GenerationRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)

TokenCounter = Callable[[str], Awaitable[int]]
Delta = TextDelta | ReasoningDelta | ToolCallDelta

_DONE = "[DONE]"
# For the end of the body after it: then the connection can be kept.
_TRAILER_S = 0.1
# vLLM has renamed it; both are read, and one at a time is sent.
_REASONING = ("reasoning", "reasoning_content")
# Reasons that end an answer before the model was through with it.
_BROKEN = {"abort", "error", "cancelled"}


@dataclass
class ChatStream:
    """What has been read of one stream so far."""

    server: Server
    traceparent: str = ""
    reason: Literal["stop", "length", "tool_calls"] | None = None
    usage: tuple[int, int, int] | None = (
        None  # tokens of prompt, completion; cached of the prompt's
    )
    details: dict[str, float] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)  # all that counts as output
    calls: bool = False  # of tools
    done: bool = False  # whether the server has said that nothing follows

    def read_all(self, events: Iterable[ServerEvent]) -> Iterator[Delta]:
        """What `events` add, up to the end of the answer."""
        for event in events:
            if event.data == _DONE:
                self.done = True
                return
            yield from self.read(event)

    def read(self, event: ServerEvent) -> Iterator[Delta]:
        """What `event` adds, often nothing. Raises an InferenceError for an error."""
        if event.error:
            raise in_band(self.server.where, fault_of_body(event.error.encode()))
        chunk = self._decoded(event.data)
        fault = parse_fault(chunk)
        if fault is not None:
            raise in_band(self.server.where, fault)
        self._note_usage(chunk)
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices:
            yield from self._note_choice(choices[0])

    def _decoded(self, data: str) -> Mapping[str, Any]:
        try:
            chunk = orjson.loads(data)
        except ValueError as exc:
            raise self._unreadable() from exc
        if not isinstance(chunk, dict):
            raise self._unreadable()
        return chunk

    def _note_usage(self, chunk: Mapping[str, Any]) -> None:
        usage, timings = chunk.get("usage"), chunk.get("timings")
        if isinstance(timings, dict):
            numbers = ((k, v) for k, v in timings.items() if isinstance(v, int | float))
            self.details = {key: float(value) for key, value in numbers}
        if isinstance(usage, dict):
            prompt = _count_of(usage.get("prompt_tokens"))
            completion = _count_of(usage.get("completion_tokens"))
            if prompt is not None and completion is not None:
                self.usage = prompt, completion, min(_cached(usage, timings), prompt)

    def _note_choice(self, choice: Any) -> Iterator[Delta]:
        if not isinstance(choice, dict):
            raise self._unreadable()
        reason = choice.get("finish_reason")
        if reason in _BROKEN:
            raise in_band(self.server.where, Fault("", str(reason)))
        delta = choice.get("delta")
        if isinstance(delta, dict):
            yield from self._note_delta(delta)
        if reason:
            self.reason = self._reason(reason)

    def _note_delta(self, delta: dict[str, Any]) -> Iterator[Delta]:
        for name in _REASONING:
            if isinstance(thought := delta.get(name), str) and thought:
                self.written.append(thought)
                yield ReasoningDelta(thought)
                break
        if isinstance(content := delta.get("content"), str) and content:
            self.written.append(content)
            yield TextDelta(content)
        if isinstance(calls := delta.get("tool_calls"), list) and calls:
            if not all(isinstance(call, dict) for call in calls):
                raise self._unreadable()
            self.calls = True
            self.written.append(json.dumps(calls, ensure_ascii=False))
            yield ToolCallDelta(tuple(calls))

    def _reason(self, told: object) -> Literal["stop", "length", "tool_calls"]:
        """TGI names the stop string (`stop_sequence`), others the token (`eos_token`)."""
        if told == "length":
            return "length"
        # TGI, and vLLM for a tool that was asked for by name, say `stop` after calls too.
        return "tool_calls" if self.calls else "stop"

    def _unreadable(self) -> errors.ProtocolError:
        return errors.ProtocolError(
            f"{self.server.where} sent an event that is no chat completion chunk. "
            "Check that the address is that of the right kind of server."
        )


def _count_of(value: object) -> int | None:
    """A number of tokens; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _cached(usage: Mapping[str, Any], timings: object) -> int:
    """Tokens of the prompt that were in the server's cache; llama.cpp tells it twice."""
    details = usage.get("prompt_tokens_details")
    told = details.get("cached_tokens") if isinstance(details, dict) else None
    if told is None and isinstance(timings, dict):
        told = timings.get("cache_n")
    return _count_of(told) or 0


async def stream_chat(
    stream: ChatStream,
    url: str,
    payload: Mapping[str, Any],
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncGenerator[Delta, None]:
    """Yield what one chat completion adds; `stream` tells reason and usage afterwards.

    Raises an InferenceError for anything but a complete answer: TimedOut when no event came for
    the server's `timeout_s`, or `first_timeout_s` before the first delta (keep-alive comments are
    no events), Interrupted when the stream ended without a finish reason. Closing the iterator
    closes the connection.
    """
    server = stream.server
    seconds = server.first_timeout_s or server.timeout_s
    with Patience() as patience:
        async with aclosing(_batches(stream, url, payload, transport)) as batches:
            while not stream.done:
                batch = await _next_batch(batches, server, patience, seconds)
                if batch is None:
                    break
                for delta in stream.read_all(batch):
                    seconds = server.timeout_s
                    yield delta
            if stream.done:
                await _read_to_end(batches)
    if stream.reason is None:
        raise errors.Interrupted(
            f"{server.where} ended its stream before the answer was finished. Try again."
        )


async def _batches(
    stream: ChatStream,
    url: str,
    payload: Mapping[str, Any],
    transport: httpx.AsyncBaseTransport | None,
) -> AsyncGenerator[list[ServerEvent], None]:
    """The events that came together, at least one."""
    server = stream.server
    headers = {"traceparent": stream.traceparent} if stream.traceparent else {}
    async with open_stream(
        server, "POST", url, body=payload, headers=headers, transport=transport
    ) as response:
        if "text/event-stream" not in response.headers.get("content-type", ""):
            await response.aread()
            fault = fault_of_body(response.content)
            if fault.kind or fault.status:
                raise in_band(server.where, fault)
            raise errors.ProtocolError(
                f"{server.where} did not answer with a stream of events. "
                "Check that the address is that of the right kind of server."
            )
        decoder = EventDecoder()
        async for piece in response.aiter_bytes():
            if batch := list(decoder.feed(piece)):
                yield batch
        if batch := list(decoder.end()):
            yield batch


async def _next_batch(
    batches: AsyncIterator[list[ServerEvent]], server: Server, patience: Patience, seconds: float
) -> list[ServerEvent] | None:
    try:
        return await patience.wait(anext(batches, None), seconds)
    except TimeoutError as exc:
        raise timed_out(server, seconds) from exc
    except EventTooLarge as exc:
        raise errors.ProtocolError(
            f"{server.where} sent an event too large for a chat completion chunk."
        ) from exc


async def _read_to_end(batches: AsyncIterator[list[ServerEvent]]) -> None:
    """Only a body that was read to its end leaves its connection fit for another call."""
    with suppress(TimeoutError, errors.InferenceError, EventTooLarge):
        async with asyncio.timeout(_TRAILER_S):
            await anext(batches, None)


async def finish(
    stream: ChatStream, request: GenerationRequest, count_tokens: TokenCounter
) -> Finished:
    """The last event; counted here and marked as estimated where the server gave no usage."""
    reason = stream.reason or "stop"
    if stream.usage is not None:
        prompt_tokens, completion_tokens, cached_tokens = stream.usage
        return Finished(
            reason,
            prompt_tokens,
            completion_tokens,
            cached_tokens=cached_tokens,
            details=stream.details,
        )
    prompt = await _count(prompt_text(request), count_tokens)
    return Finished(
        reason,
        prompt_tokens=prompt + template_tokens(request.turns),
        completion_tokens=await _count("".join(stream.written), count_tokens),
        estimated=True,
        details=stream.details,
    )


async def _count(text: str, count_tokens: TokenCounter) -> int:
    try:
        return await count_tokens(text)
    except errors.InferenceError:
        return estimate_tokens(text)  # the answer is complete: it is not lost over a count
