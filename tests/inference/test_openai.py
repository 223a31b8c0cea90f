"""The OpenAI-compatible client against the dialects of vLLM, SGLang and llama.cpp.

The streams are written as those servers write them (see `chat_stream`), through a fake transport.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import httpx
import pytest

from apps.inference import errors
from apps.inference.generators.openai import OpenAIGenerator
from apps.inference.generators.tokens import estimate_tokens
from apps.inference.transport import Server
from apps.inference.types import (
    ChatTurn,
    Finished,
    GenerationEvent,
    GenerationRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)

SERVER = Server("OpenAI-compatible", "http://model.test:8000/v1/", "secret-key", timeout_s=0.5)
REQUEST = GenerationRequest((ChatTurn("user", "Say hello"),), max_tokens=20, stop=("END",), seed=3)

VLLM = """data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}

data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}

data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop","stop_reason":null}]}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}

data: [DONE]

"""
SGLANG = """data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"",\
"tool_calls":null},"finish_reason":null,"matched_stop":null}],"usage":null}

data: {"choices":[{"index":0,"delta":{"role":null,"content":"Hello"},"finish_reason":null}],\
"usage":null}

data: {"choices":[{"index":0,"delta":{"role":null,"content":null},"finish_reason":"stop",\
"matched_stop":2}],"usage":null}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}

data: [DONE]

"""
LLAMACPP = """: ping

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],\
"prompt_progress":{"total":9,"cache":0,"processed":0,"time_ms":0}}

:

data:{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hello"}}]}

data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],\
"usage":{"prompt_tokens":9,"completion_tokens":2},"timings":{"prompt_ms":4.5,"predicted_n":2}}

data: [DONE]

"""
REASONING = VLLM.replace(
    'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}',
    'data: {"choices":[{"index":0,"delta":{"reasoning":"hm","reasoning_content":"hm"}}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}',
)
HELLO = 'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
END = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


class Bytes(httpx.AsyncByteStream):
    """A body sent in pieces of `size` bytes."""

    def __init__(self, body: bytes, size: int) -> None:
        self.body, self.size, self.closed = body, size, False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.body), self.size):
            yield self.body[start : start + self.size]

    async def aclose(self) -> None:
        self.closed = True


def answering(body: str, *, owner: str = "vllm", size: int = 10_000) -> httpx.MockTransport:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "m", "owned_by": owner}]})
        if request.url.path == "/v1/chat/completions":
            headers = {"content-type": "text/event-stream; charset=utf-8"}
            return httpx.Response(200, headers=headers, stream=Bytes(body.encode(), size))
        return httpx.Response(404, json={"detail": "Not Found"})

    return httpx.MockTransport(handle)


def refusing(reply: httpx.Response) -> httpx.MockTransport:
    return httpx.MockTransport(
        lambda request: httpx.Response(404) if request.method == "GET" else reply
    )


async def collected(transport: httpx.MockTransport) -> tuple[str, Finished]:
    client = OpenAIGenerator(SERVER, model="m", transport=transport)
    events: list[GenerationEvent] = []
    async with aclosing(client.stream(REQUEST)) as stream:
        events = [event async for event in stream]
    *deltas, last = events
    assert isinstance(last, Finished)
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)), last


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize("body", [VLLM, SGLANG, LLAMACPP, REASONING, VLLM.replace("\n", "\r\n")])
async def test_every_dialect_gives_the_same_answer(body: str, size: int) -> None:
    text, finished = await collected(answering(body, size=size))

    assert text == "Hello"
    assert (finished.reason, finished.prompt_tokens, finished.completion_tokens) == ("stop", 9, 2)
    assert not finished.estimated


async def events_of(body: str) -> list[GenerationEvent]:
    client = OpenAIGenerator(SERVER, model="m", transport=answering(body))
    async with aclosing(client.stream(REQUEST)) as stream:
        return [event async for event in stream]


def chunk(choice: str, rest: str = "") -> str:
    return f'data: {{"choices":[{{"index":0,{choice}}}]{rest}}}\n\n'


async def test_reasoning_is_told_apart_from_the_answer() -> None:
    events = await events_of(REASONING)
    assert events[0] == ReasoningDelta("hm")
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["Hel", "lo"]


async def test_reasoning_alone_counts_as_output_where_the_server_gives_no_usage() -> None:
    thought = "let me think about this " * 20
    body = chunk(f'"delta":{{"reasoning_content":"{thought}"}}') + END
    *_, finished = await events_of(body)
    assert isinstance(finished, Finished)
    assert finished.estimated
    assert finished.completion_tokens == estimate_tokens(thought)


async def test_calls_to_tools_pass_through_and_name_the_reason() -> None:
    calls = '[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{"}}]'
    rest = '[{"index":0,"function":{"arguments":"}"}}]'
    body = (
        chunk(f'"delta":{{"role":"assistant","content":null,"tool_calls":{calls}}}')
        + chunk(f'"delta":{{"tool_calls":{rest}}}')
        + END
    )
    events = await events_of(body)
    assert events[:2] == [
        ToolCallDelta(tuple(json.loads(calls))),
        ToolCallDelta(tuple(json.loads(rest))),
    ]
    assert isinstance(events[2], Finished)
    # TGI, and vLLM for a named tool, end such an answer with `stop`.
    assert events[2].reason == "tool_calls"
    assert events[2].completion_tokens > 0


@pytest.mark.parametrize("calls", ['["x"]', "[1]", "[[]]"])
async def test_calls_that_are_none_are_no_chunk(calls: str) -> None:
    with pytest.raises(errors.ProtocolError):
        await events_of(chunk(f'"delta":{{"tool_calls":{calls}}}') + END)


USAGE = '"usage":{"prompt_tokens":9,"completion_tokens":2%s}'
CACHED = USAGE % ',"prompt_tokens_details":{"cached_tokens":7}'


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        (CACHED, 7),
        (USAGE % "", 0),
        (USAGE % ',"prompt_tokens_details":null', 0),
        (USAGE % ',"prompt_tokens_details":{"cached_tokens":null}', 0),
        (USAGE % "" + ',"timings":{"cache_n":5,"prompt_n":4}', 5),
        # More than were read, or fewer than none, is nonsense that would be priced.
        (USAGE % ',"prompt_tokens_details":{"cached_tokens":99}', 9),
        (USAGE % ',"prompt_tokens_details":{"cached_tokens":-1}', 0),
    ],
)
@pytest.mark.parametrize("alone", [True, False], ids=["no choices", "with choices"])
async def test_cached_tokens_are_told_with_the_usage(usage: str, cached: int, alone: bool) -> None:
    delta = '"delta":{},"finish_reason":"stop"'
    body = HELLO + (
        END + f'data: {{"choices":[],{usage}}}\n\n' if alone else chunk(delta, f",{usage}")
    )
    *_, finished = await events_of(body)
    assert isinstance(finished, Finished)
    assert (finished.prompt_tokens, finished.completion_tokens) == (9, 2)
    assert finished.cached_tokens == cached
    assert not finished.estimated


@pytest.mark.parametrize(
    "usage", ['{"prompt_tokens":-9,"completion_tokens":2}', '{"prompt_tokens":true}', "[]", "7"]
)
async def test_usage_that_is_none_is_counted_here(usage: str) -> None:
    *_, finished = await events_of(HELLO + END + f'data: {{"choices":[],"usage":{usage}}}\n\n')
    assert isinstance(finished, Finished)
    assert finished.estimated


async def test_timings_of_llamacpp_are_kept() -> None:
    _, finished = await collected(answering(LLAMACPP))
    assert finished.details == {"prompt_ms": 4.5, "predicted_n": 2.0}


@pytest.mark.parametrize("tail", ["", "data: [DONE]\n\n", "data: [DONE]"])
async def test_missing_usage_is_estimated(tail: str) -> None:
    text, finished = await collected(answering(HELLO + END + tail))

    assert text == "Hello"
    assert finished.estimated
    assert finished.completion_tokens == estimate_tokens("Hello")
    assert finished.prompt_tokens > estimate_tokens("Say hello")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", errors.Interrupted),
        (HELLO, errors.Interrupted),
        (HELLO + "data: [DONE]\n\n", errors.Interrupted),
        (HELLO + 'data: {"choices":[{"ind', errors.Interrupted),
        (HELLO + 'data: {"choices":[{"finish_reason":"abort"}]}\n\n', errors.Interrupted),
        (
            HELLO + 'data: {"error":{"message":"boom","type":"server_error","code":500}}\n\n',
            errors.Interrupted,
        ),
        (
            'data: {"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}\n\n',
            errors.Rejected,
        ),
        ('data: {"error":{"message":"slow down","code":429}}\n\n', errors.Overloaded),
        ('error: {"code":503,"message":"Loading model","type":"unavailable_error"}\n\n',
         errors.Unavailable),
        ('error: {"error":{"code":500,"message":"x","type":"server_error"}}\n', errors.Interrupted),
        ('data: {"message":"m","type":"BadRequestError","code":400}\n\n', errors.Rejected),
        ("data: <html>\n\n", errors.ProtocolError),
        ("data: [1, 2]\n\n", errors.ProtocolError),
        ('data: {"choices":["x"]}\n\n', errors.ProtocolError),
        ("data: " + "x" * 2_000_000, errors.ProtocolError),
        ("data: x\n" * 300_000, errors.ProtocolError),
    ],
)  # fmt: skip
async def test_trouble_in_the_stream_becomes_one_kind_of_error(
    body: str, error: type[errors.InferenceError]
) -> None:
    with pytest.raises(errors.InferenceError) as caught:
        await collected(answering(body))
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (httpx.Response(401, json={"error": {"code": 401, "type": "authentication_error"}}),
         errors.Unauthorised),
        (httpx.Response(404, json={"error": {"message": "no model", "code": 404}}),
         errors.Rejected),
        (httpx.Response(400, json={"error": {"type": "exceed_context_size_error",
                                             "n_prompt_tokens": 9000, "n_ctx": 2048}}),
         errors.Rejected),
        (httpx.Response(503, json={"error": {"message": "Loading model", "code": 503}}),
         errors.Unavailable),
        (httpx.Response(429), errors.Overloaded),
        (httpx.Response(302, headers={"location": "http://evil.test/"}), errors.ProtocolError),
        (httpx.Response(200, json={"error": {"message": "m", "type": "invalid_request_error"}}),
         errors.Rejected),
        (httpx.Response(200, json={"choices": []}), errors.ProtocolError),
        (httpx.Response(500, text="x" * 10_000_000), errors.Unavailable),
    ],
)  # fmt: skip
async def test_a_refusal_becomes_one_kind_of_error(
    reply: httpx.Response, error: type[errors.InferenceError]
) -> None:
    with pytest.raises(errors.InferenceError) as caught:
        await collected(refusing(reply))
    assert type(caught.value) is error
    assert "secret-key" not in str(caught.value)


async def test_progress_is_asked_of_llamacpp_only() -> None:
    assert (await _payload("llamacpp"))["return_progress"] is True
    assert "return_progress" not in await _payload("vllm")


async def test_the_request_says_what_was_asked() -> None:
    payload = await _payload("vllm")
    assert payload["messages"] == [{"role": "user", "content": "Say hello"}]
    assert (payload["stop"], payload["seed"], payload["temperature"]) == (["END"], 3, 0.0)
    assert (payload["model"], payload["max_tokens"], payload["stream"]) == ("m", 20, True)


async def _payload(owner: str) -> dict[str, object]:
    sent: list[dict[str, object]] = []
    inner = answering(VLLM, owner=owner)

    def noting(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            assert request.headers["authorization"] == "Bearer secret-key"
            sent.append(json.loads(request.content))
        handler: Callable[[httpx.Request], httpx.Response] = inner.handler  # type: ignore[assignment]
        return handler(request)

    await collected(httpx.MockTransport(noting))
    return sent[0]


@pytest.mark.parametrize(
    ("reply", "count"),
    [
        (httpx.Response(200, json={"tokens": [1, 2, 3]}), 3),
        (httpx.Response(200, json={"count": 3, "max_model_len": 10, "tokens": [1, 2, 3]}), 3),
        (httpx.Response(404), estimate_tokens("one two three")),
        (httpx.Response(200, json={"unexpected": True}), estimate_tokens("one two three")),
    ],
)
async def test_tokens_are_counted_where_the_server_can(reply: httpx.Response, count: int) -> None:
    client = OpenAIGenerator(SERVER, transport=httpx.MockTransport(lambda request: reply))
    assert await client.count_tokens("one two three") == count


async def test_a_server_without_tokenize_is_asked_once() -> None:
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(404)

    client = OpenAIGenerator(SERVER, transport=httpx.MockTransport(handle))
    await client.count_tokens("one")
    await client.count_tokens("two")
    assert asked == ["/tokenize"]


async def test_environment_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", "hf_private")
    seen: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization", ""))
        return httpx.Response(200, json={"data": []})

    keyless = Server("OpenAI-compatible", "http://model.test/v1")
    await OpenAIGenerator(keyless, transport=httpx.MockTransport(handle)).health()
    assert seen == [""]
