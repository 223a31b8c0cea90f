"""Our client against the real one-machine engine."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from apps.inference import errors
from apps.inference.generators.openai import OpenAIGenerator
from apps.inference.generators.tokens import template_tokens
from apps.inference.transport import Server, fetch_json
from apps.inference.types import ChatTurn, Finished, GenerationEvent, GenerationRequest, TextDelta
from tests.real_parts import KEY

pytestmark = [pytest.mark.slow]
REQUEST = GenerationRequest(
    (
        ChatTurn("system", "Answer from the passage only."),
        ChatTurn("user", "Passage: The capital of France is Paris.\n\nWhat is the capital?"),
    ),
    max_tokens=40,
)
STORY = GenerationRequest((ChatTurn("user", "Tell a very long story about the sea."),), 1500)


def generator(url: str, key: str = KEY) -> OpenAIGenerator:
    return OpenAIGenerator(Server("OpenAI-compatible", url, key, timeout_s=60))


async def busy_slots(url: str) -> int:
    server = Server("OpenAI-compatible", url, KEY)
    slots: list[dict[str, Any]] = await fetch_json(server, "GET", f"{server.root}/slots")
    return sum(bool(slot["is_processing"]) for slot in slots)


async def seconds_until_idle(url: str) -> float:
    begun = time.monotonic()
    while await busy_slots(url) and time.monotonic() - begun < 30:  # noqa: ASYNC110 - asked over HTTP
        await asyncio.sleep(0.02)
    return time.monotonic() - begun


async def answered(url: str, request: GenerationRequest = REQUEST) -> tuple[str, Finished]:
    events: list[GenerationEvent] = []
    async with aclosing(generator(url).stream(request)) as stream:
        events = [event async for event in stream]
    *deltas, last = events
    assert isinstance(last, Finished)
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)), last


async def test_it_answers_from_the_passage_with_its_own_usage(engine_url: str) -> None:
    text, finished = await answered(engine_url)
    assert "Paris" in text
    assert not finished.estimated
    assert finished.prompt_tokens > 20
    assert finished.details["predicted_n"] == finished.completion_tokens


async def test_counted_tokens_and_template_cover_the_prompt(engine_url: str) -> None:
    counts = [await generator(engine_url).count_tokens(t.content) for t in REQUEST.turns]
    _, finished = await answered(engine_url, replace(REQUEST, max_tokens=1))
    upper = sum(counts) + template_tokens(REQUEST.turns)
    assert sum(counts) < finished.prompt_tokens <= upper


async def test_the_same_request_gives_the_same_answer(engine_url: str) -> None:
    assert (await answered(engine_url))[0] == (await answered(engine_url))[0]


async def test_stop_and_length_are_told_apart(engine_url: str) -> None:
    _, cut = await answered(engine_url, replace(STORY, max_tokens=5))
    stopped, finished = await answered(engine_url, replace(REQUEST, stop=("Paris",)))
    assert (cut.reason, cut.completion_tokens) == ("length", 5)
    assert finished.reason == "stop"
    assert "Paris" not in stopped


async def test_closing_the_stream_frees_the_slot_within_a_second(engine_url: str) -> None:
    async with aclosing(generator(engine_url).stream(STORY)) as stream:
        await anext(stream)
        assert await busy_slots(engine_url) == 1
    assert await seconds_until_idle(engine_url) < 1


async def test_cancelling_while_the_prompt_is_read_frees_the_slot(engine_url: str) -> None:
    prompt = "".join(f"Sentence {n} is about the number {n * 7}. " for n in range(120))
    task = asyncio.create_task(answered(engine_url, replace(REQUEST, turns=(
        ChatTurn("user", prompt),
    ))))  # fmt: skip
    while not await busy_slots(engine_url):  # noqa: ASYNC110 - asked over HTTP
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # Two steps of the prompt: about 0.7 s on an idle core, more where it is shared.
    assert await seconds_until_idle(engine_url) < 3


async def test_answers_run_side_by_side(engine_url: str) -> None:
    answers = await asyncio.gather(*(answered(engine_url) for _ in range(6)))
    assert all(text for text, _ in answers)


async def test_a_prompt_beyond_the_context_is_rejected(engine_url: str) -> None:
    request = replace(REQUEST, turns=(ChatTurn("user", "word " * 5000),))
    with pytest.raises(errors.Rejected):
        await answered(engine_url, request)


async def test_a_wrong_key_is_told(engine_url: str) -> None:
    with pytest.raises(errors.Unauthorised):
        await generator(engine_url, key="wrong").health()


async def test_metrics_are_on(engine_url: str) -> None:
    server = Server("OpenAI-compatible", engine_url, KEY)
    with pytest.raises(errors.ProtocolError, match="not JSON"):  # it is Prometheus' text
        await fetch_json(server, "GET", f"{server.root}/metrics")
