"""`/v1/chat/completions`: streams and whole replies, what is passed on, and leaving early."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from apps.gateway.api import exchange, pressure
from apps.gateway.models import LedgerEntry, Reservation
from apps.tenants.aio import in_thread
from tests.cast import Cast
from tests.contract.tgi import Behaviour, TgiDouble
from tests.gateway.api_world import ANSWER, CHAT, QUESTION, chat
from tests.gateway.asgi import ask, open_request

pytestmark = pytest.mark.django_db(transaction=True)


def sent_to(tgi: TgiDouble) -> dict[str, Any]:
    """The body of the last generation that the model server was asked for."""
    bodies = [r.body for r in tgi.requests if r.path == CHAT]
    found: dict[str, Any] = json.loads(bodies[-1])
    return found


async def rows() -> list[LedgerEntry]:
    return await in_thread(lambda: list(LedgerEntry.objects.order_by("id")))


# --- Streams ---


async def test_a_stream_is_as_openais_clients_want_it(key: str, tgi: TgiDouble) -> None:
    answer = await ask("POST", CHAT, chat(stream=True), key=key)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    events = answer.events
    first, last = events[0]["choices"][0], events[-1]["choices"][0]
    assert first["delta"] == {"role": "assistant", "content": ""}
    assert (last["delta"], last["finish_reason"]) == ({}, "stop")
    texts = [e["choices"][0]["delta"].get("content", "") for e in events]
    assert "".join(texts) == ANSWER
    assert all("role" not in e["choices"][0]["delta"] for e in events[1:])
    assert len({e["id"] for e in events}) == 1
    assert {e["object"] for e in events} == {"chat.completion.chunk"}
    assert {e["model"] for e in events} == {"tgi"}
    assert all("usage" not in e for e in events)


async def test_usage_comes_in_a_chunk_of_its_own(key: str, tgi: TgiDouble) -> None:
    body = chat(stream=True, stream_options={"include_usage": True})
    events = (await ask("POST", CHAT, body, key=key)).events
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 5
    assert all(event["usage"] is None for event in events[:-1])


async def test_pieces_are_sent_as_they_come(key: str, tgi: TgiDouble) -> None:
    tgi.script(Behaviour(token_s=0.05))
    connection = open_request("POST", CHAT, chat(stream=True), key=key)
    await connection.until(lambda: connection.answer.pieces)
    assert not connection.answer.complete
    answer = await connection.done()
    assert len(answer.pieces) >= 5


@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_before_the_first_token_is_a_status(
    key: str, tgi: TgiDouble, stream: bool
) -> None:
    tgi.default = Behaviour(status=502)
    answer = await ask("POST", CHAT, chat(stream=stream), key=key)
    assert answer.status in (502, 503)
    assert answer.error["type"] == "server_error"
    assert "retry-after" in answer.headers or answer.status == 502


@pytest.mark.parametrize("failure", ["error", "reset", "close", "half_frame"])
async def test_an_error_after_it_is_an_event(key: str, tgi: TgiDouble, failure: Any) -> None:
    tgi.script(Behaviour(failure=failure, fail_after=2))
    answer = await ask("POST", CHAT, chat(stream=True), key=key)
    assert answer.status == 200
    assert answer.events[-1]["error"]["message"]
    assert answer.events[-1]["error"]["type"]
    assert answer.complete


async def test_a_whole_reply_that_broke_off_is_an_error(key: str, tgi: TgiDouble) -> None:
    tgi.script(Behaviour(failure="reset", fail_after=2))
    answer = await ask("POST", CHAT, chat(), key=key)
    assert answer.status == 502
    [row] = await rows()
    assert (row.outcome, row.output_tokens) == ("failed", 2)


async def test_silence_is_filled_with_comments(
    key: str, tgi: TgiDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "KEEP_ALIVE_S", 0.05)
    tgi.script(Behaviour(first_s=0.3))
    answer = await ask("POST", CHAT, chat(stream=True), key=key)
    assert answer.pieces[0] == b": keep-alive\n\n"
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in answer.events) == ANSWER


async def test_an_error_after_a_comment_is_an_event(
    key: str, tgi: TgiDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "KEEP_ALIVE_S", 0.05)
    tgi.default = Behaviour(first_s=0.3, failure="error")
    answer = await ask("POST", CHAT, chat(stream=True), key=key)
    assert answer.status == 200
    assert answer.events[-1]["error"]["message"]


# --- Whole replies ---


async def test_a_whole_reply(key: str, tgi: TgiDouble) -> None:
    answer = await ask("POST", CHAT, chat(), key=key)
    reply = answer.json
    assert answer.status == 200
    assert reply["object"] == "chat.completion"
    assert reply["choices"][0]["message"]["content"] == ANSWER
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["usage"]["completion_tokens"] == 5
    assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + 5
    assert answer.headers["x-ragsite-cost-micros"] == "0"
    assert len(answer.headers["x-request-id"]) == 36


async def test_an_answer_is_booked_under_the_key(cast: Cast, key: str, tgi: TgiDouble) -> None:
    answer = await ask("POST", CHAT, chat(), key=key)
    [row] = await rows()
    assert (row.source, row.hop, row.model, row.outcome) == ("api", "generate", "tgi", "complete")
    assert (row.tenant_id, row.user_id) == (cast.acme.id, None)
    assert str(row.request_id) == answer.headers["x-request-id"]
    assert row.key_id is not None


# --- What is passed on ---


async def test_parameters_are_passed_on(key: str, tgi: TgiDouble) -> None:
    body = chat(
        max_completion_tokens=7,
        temperature=0.5,
        top_p=0.9,
        seed=11,
        stop="\n",
        tools=[{"type": "function", "function": {"name": "look", "parameters": {}}}],
        tool_choice="auto",
        user="someone",
        metadata={"a": "b"},
    )
    assert (await ask("POST", CHAT, body, key=key)).status == 200
    sent = sent_to(tgi)
    assert (sent["max_tokens"], sent["temperature"], sent["top_p"]) == (7, 0.5, 0.9)
    assert (sent["seed"], sent["stop"], sent["tool_choice"]) == (11, ["\n"], "auto")
    assert sent["tools"][0]["function"]["name"] == "look"
    assert not {"user", "metadata"} & set(sent)


async def test_what_is_not_given_has_the_models_values(key: str, tgi: TgiDouble) -> None:
    await ask("POST", CHAT, chat(top_p=1, stop=None, stream_options=None, n=1), key=key)
    sent = sent_to(tgi)
    assert (sent["max_tokens"], sent["temperature"]) == (64, 0.0)
    assert "top_p" not in sent


async def test_a_conversation_is_passed_on_whole(key: str, tgi: TgiDouble) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "seen", "tool_call_id": "1"},
        {"role": "user", "name": "ann", "content": "So?"},
    ]
    await ask("POST", CHAT, chat(messages=messages), key=key)
    sent = sent_to(tgi)["messages"]
    assert [each["role"] for each in sent] == ["system", "user", "assistant", "tool", "user"]
    assert sent[1]["content"] == "a\nb"
    assert sent[2]["tool_calls"] == [call]
    assert sent[3]["tool_call_id"] == "1"
    assert sent[4]["name"] == "ann"


async def test_images_are_passed_on_as_parts(key: str, tgi: TgiDouble) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    parts = [{"type": "text", "text": "What is this?"}, image]
    await ask("POST", CHAT, chat(messages=[{"role": "user", "content": parts}]), key=key)
    assert sent_to(tgi)["messages"][0]["content"] == parts


# --- What is refused ---


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"max_tokens": 65}, "max_tokens"),
        ({"max_completion_tokens": 10**9}, "max_completion_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 5.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 10**400}, "seed"),
        ({"stream": "yes"}, "stream"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"tools": {}}, "tools"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"response_format": "json"}, "response_format"),
        ({"model": ""}, "model"),
        ({"model": 5}, "model"),
        ({"model": "x" * 201}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [5]}, "messages[0]"),
        ({"messages": QUESTION * 2049}, "messages"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "a\0b"}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content",
        ),
    ],
)
async def test_a_wrong_field_is_named(
    key: str, tgi: TgiDouble, changes: dict[str, Any], param: str
) -> None:
    answer = await ask("POST", CHAT, chat(**changes), key=key)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert answer.error["type"] == "invalid_request_error"
    assert not await rows()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe{}",
        b'{"model": "\xc3\x28"}',
        b'{"model": "tgi", "messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"model": "tgi", "temperature": NaN}',
        b'{"model": "tgi", "temperature": Infinity}',
        b"[" * 100_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'{"model": ' + b"9" * 5000 + b"}",
        b"<xml/>",
    ],
)
async def test_what_is_no_json_object_is_refused(key: str, tgi: TgiDouble, body: bytes) -> None:
    answer = await ask("POST", CHAT, body, key=key)
    assert answer.status == 400
    assert answer.error["message"]


async def test_of_a_field_sent_twice_the_last_counts(key: str, tgi: TgiDouble) -> None:
    body = json.dumps(chat()).replace('"model": "tgi"', '"model": "x", "model": "tgi"').encode()
    assert (await ask("POST", CHAT, body, key=key)).status == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_another_content_type_is_refused(key: str, tgi: TgiDouble, kind: str) -> None:
    answer = await ask("POST", CHAT, chat(), key=key, headers={"content-type": kind})
    assert (answer.status, answer.error["code"]) == (415, "content_type")


async def test_a_body_that_is_too_large_is_refused_unread(key: str, tgi: TgiDouble) -> None:
    announced = await ask("POST", CHAT, chat(), key=key, headers={"content-length": "100000000"})
    sent = await ask("POST", CHAT, b" " * (exchange.BODY_MAX_BYTES + 1), key=key)
    assert announced.status == sent.status == 413
    assert sent.error["code"] == "too_large"


async def test_a_prompt_that_cannot_fit_is_refused_before_any_call(
    key: str, tgi: TgiDouble
) -> None:
    long = [{"role": "user", "content": "word " * 10_000}]
    answer = await ask("POST", CHAT, chat(messages=long), key=key)
    assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
    assert tgi.counts["requests"] == 0


async def test_a_prompt_that_the_upstream_finds_too_long_is_told_the_same(
    key: str, tgi: TgiDouble
) -> None:
    long = [{"role": "user", "content": "word " * 3_000}]
    answer = await ask("POST", CHAT, chat(messages=long), key=key)
    assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
    assert tgi.counts["validation"] == 1


async def test_a_model_of_another_kind_is_not_found(key: str, tgi: TgiDouble) -> None:
    answer = await ask("POST", CHAT, chat(model="embedding"), key=key)
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")


# --- Leaving ---


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_ends_the_call(key: str, tgi: TgiDouble, stream: bool) -> None:
    tgi.script(Behaviour(tokens=("a ",) * 1000, token_s=0.02))
    connection = open_request("POST", CHAT, chat(stream=stream), key=key)
    await _until(lambda: tgi.open_generations == 1)
    if stream:
        await connection.until(lambda: connection.answer.pieces)
    connection.leave()
    await connection.done()
    assert not connection.answer.complete
    await _until(lambda: tgi.disconnects == 1)
    [row] = await rows()
    assert row.outcome == "disconnected"


async def test_a_client_that_leaves_does_not_end_the_call_of_another(
    key: str, tgi: TgiDouble
) -> None:
    tgi.default = Behaviour(token_s=0.1)
    first = open_request("POST", CHAT, chat(stream=True), key=key)
    await first.until(lambda: first.answer.pieces)
    second = open_request("POST", CHAT, chat(stream=True), key=key)
    await second.until(lambda: second.answer.pieces)
    first.leave()
    await first.done()
    answer = await second.done()
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in answer.events) == ANSWER
    assert answer.headers["x-ragsite-cache"] == "shared"
    assert tgi.counts["requests"] == 1
    assert {(row.cache, row.outcome) for row in await rows()} == {
        ("miss", "complete"),
        ("shared", "complete"),
    }
    assert not await in_thread(Reservation.objects.exists)


async def test_a_client_that_leaves_after_the_answer_has_it_booked(
    key: str, tgi: TgiDouble
) -> None:
    connection = open_request("POST", CHAT, chat(stream=True), key=key)
    await connection.until(lambda: b"[DONE]" in connection.answer.body)
    connection.leave()
    await connection.done()
    [row] = await rows()
    assert row.outcome == "complete"


class _Request:
    """Daphne's request, as far as backpressure is concerned."""

    channel = object()

    def __init__(self) -> None:
        self.producer: Any = None

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None


class _Send:
    def __init__(self, request: _Request) -> None:
        self.args = (request,)


async def test_a_shut_gate_holds_until_the_client_has_read() -> None:
    request = _Request()
    gate = pressure.Gate.before(_Send(request))
    request.producer.pauseProducing()
    assert gate.is_shut
    opening = asyncio.create_task(gate.opens())
    await asyncio.sleep(0)
    assert not opening.done()
    request.producer.resumeProducing()
    assert await opening
    gate.close()
    assert request.producer is None


async def test_another_servers_send_needs_no_gate() -> None:
    async def send(_: Any) -> None: ...

    assert not pressure.Gate.before(send).is_shut


async def _until(condition: Any) -> None:
    """Of what happens in the double's threads nothing tells this loop."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
