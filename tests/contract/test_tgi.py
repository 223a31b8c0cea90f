"""Our TGI client against the double, over real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from apps.inference import errors
from apps.inference.generators.tgi import TgiGenerator
from apps.inference.transport import Server
from apps.inference.types import ChatTurn, Finished, GenerationEvent, GenerationRequest, TextDelta
from tests.contract.loopback import wait_for
from tests.contract.tgi import Behaviour, TgiDouble

KEY = "secret-key-3c1"
REQUEST = GenerationRequest((ChatTurn("user", "What is the capital of France?"),), max_tokens=50)
LONG = Behaviour(tokens=(" word",) * 1000, token_s=0.01)


@pytest.fixture
def server() -> Iterator[TgiDouble]:
    with TgiDouble(api_key=KEY) as double:
        yield double


def generator(server: TgiDouble, *, timeout_s: float = 5.0, key: str = KEY) -> TgiGenerator:
    return TgiGenerator(Server("TGI", server.url, key, timeout_s))


async def collected(
    client: TgiGenerator, request: GenerationRequest = REQUEST
) -> tuple[str, Finished]:
    events: list[GenerationEvent] = []
    async with aclosing(client.stream(request)) as stream:
        events = [event async for event in stream]
    *deltas, last = events
    assert isinstance(last, Finished)
    assert all(isinstance(delta, TextDelta) and delta.text for delta in deltas)
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)), last


@pytest.mark.parametrize(
    "framing",
    [
        Behaviour(),
        Behaviour(space=False),
        Behaviour(together=True),
        Behaviour(cut_bytes=1),
        Behaviour(cut_bytes=7),
        Behaviour(cut_bytes=7, space=False),
        Behaviour(token_s=0.05, keep_alive_s=0.01),
    ],
    ids=["plain", "no space", "one segment", "bytewise", "cut frames", "cut, no space", "pings"],
)
async def test_text_arrives_however_the_frames_are_cut(
    server: TgiDouble, framing: Behaviour
) -> None:
    server.script(
        replace(framing, tokens=("Zürich", " – ", "東京", " 🗼", "", "."), finish="length")
    )

    text, finished = await collected(generator(server))

    assert text == "Zürich – 東京 🗼."
    assert finished.reason == "length"
    assert finished.completion_tokens == 6
    assert finished.prompt_tokens > 5
    assert not finished.estimated


@pytest.mark.parametrize(
    ("finish", "reason"), [("eos_token", "stop"), ("stop_sequence", "stop"), ("length", "length")]
)
async def test_finish_reasons_are_normalised(server: TgiDouble, finish: str, reason: str) -> None:
    server.script(Behaviour(finish=finish))  # type: ignore[arg-type]
    assert (await collected(generator(server)))[1].reason == reason


async def test_usage_is_counted_when_the_server_gives_none(server: TgiDouble) -> None:
    server.script(Behaviour(usage=False))

    text, finished = await collected(generator(server))

    assert finished.estimated
    assert finished.completion_tokens == await generator(server).count_tokens(text)
    assert finished.prompt_tokens >= await generator(server).count_tokens(REQUEST.turns[0].content)


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (Behaviour(overloaded=True), errors.Overloaded),
        (Behaviour(failure="error", fail_after=0), errors.Unavailable),
        (Behaviour(failure="error", fail_after=2), errors.Unavailable),
        (Behaviour(failure="incomplete", fail_after=2), errors.Interrupted),
        (Behaviour(failure="close", fail_after=2), errors.Interrupted),
        (Behaviour(failure="close", fail_after=0), errors.Interrupted),
        (Behaviour(failure="half_frame", fail_after=2), errors.Interrupted),
        (Behaviour(failure="reset", fail_after=2), errors.Interrupted),
        (Behaviour(failure="reset", fail_after=0), errors.Interrupted),
        (Behaviour(failure="stall", fail_after=2), errors.TimedOut),
        (Behaviour(failure="stall", fail_after=2, keep_alive_s=0.05), errors.TimedOut),
        (Behaviour(first_s=3600, keep_alive_s=0.05), errors.TimedOut),
        (Behaviour(status=502), errors.Unavailable),
        (Behaviour(status=503), errors.Unavailable),
        (Behaviour(status=504), errors.TimedOut),
        (Behaviour(status=429), errors.Overloaded),
        (Behaviour(status=404), errors.Rejected),
        (Behaviour(status=307), errors.ProtocolError),
        (Behaviour(status=200), errors.ProtocolError),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, type) else None,
)
async def test_trouble_becomes_one_kind_of_error(
    server: TgiDouble, behaviour: Behaviour, error: type[errors.InferenceError]
) -> None:
    server.script(behaviour)

    with pytest.raises(error) as caught:
        await collected(generator(server, timeout_s=0.3))

    assert type(caught.value) is error
    assert server.url in str(caught.value)
    assert KEY not in str(caught.value)
    assert "France" not in str(caught.value)


async def test_text_before_an_error_is_delivered(server: TgiDouble) -> None:
    server.script(Behaviour(failure="error", fail_after=2))
    async with aclosing(generator(server).stream(REQUEST)) as stream:
        assert await anext(stream) == TextDelta("Paris")
        assert await anext(stream) == TextDelta(" is")
        with pytest.raises(errors.Unavailable):
            await anext(stream)


@pytest.mark.parametrize(
    "turns",
    [(ChatTurn("user", "word " * 1500),), (ChatTurn("user", "word " * 1020),)],
    ids=["over the total", "over the input"],
)
async def test_too_long_a_prompt_is_rejected_in_band(
    server: TgiDouble, turns: tuple[ChatTurn, ...]
) -> None:
    with pytest.raises(errors.Rejected) as caught:
        await collected(generator(server), GenerationRequest(turns, max_tokens=1000))
    assert "Input validation error" in caught.value.detail


async def test_wrong_key_is_told_without_a_body(server: TgiDouble) -> None:
    with pytest.raises(errors.Unauthorised, match="key"):
        await collected(generator(server, key="other"))


async def test_every_field_is_one_that_tgi_takes(server: TgiDouble) -> None:
    request = replace(REQUEST, stop=("\n\n", "Question:"), seed=7, temperature=0.0)
    await collected(generator(server), request)
    await collected(generator(server), REQUEST)

    full, bare = server.bodies("/v1/chat/completions")

    assert full["stop"] == ["\n\n", "Question:"]
    assert full["seed"] == 7
    assert bare["stream_options"] == {"include_usage": True}
    assert {"stop", "seed", "top_p"}.isdisjoint(bare)


async def test_long_generations_run_past_the_first_thousand_tokens(server: TgiDouble) -> None:
    server.script(Behaviour(tokens=(" x",) * 1500))
    text, _ = await collected(generator(server), replace(REQUEST, max_tokens=100_000))
    assert len(text) == 2 * 1500


async def test_closing_the_iterator_ends_the_generation_at_once(server: TgiDouble) -> None:
    server.script(LONG)
    stream = generator(server).stream(REQUEST)
    await anext(stream)
    assert server.open_generations == 1

    await stream.aclose()

    assert await asyncio.to_thread(wait_for, lambda: server.disconnects == 1, within_s=1)
    assert server.open_generations == 0


@pytest.mark.parametrize("behaviour", [LONG, Behaviour(first_s=3600)], ids=["mid-stream", "before"])
async def test_cancelling_the_task_ends_the_generation_at_once(
    server: TgiDouble, behaviour: Behaviour
) -> None:
    server.script(behaviour)
    task = asyncio.create_task(collected(generator(server)))
    await asyncio.to_thread(wait_for, lambda: server.open_generations == 1, within_s=2)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(wait_for, lambda: server.disconnects == 1, within_s=1)


async def test_a_connection_serves_one_generation_after_another(server: TgiDouble) -> None:
    for _ in range(8):
        await collected(generator(server))
    assert server.accepted == 1


async def test_a_kept_connection_that_the_server_has_closed_does_no_harm(
    server: TgiDouble,
) -> None:
    await collected(generator(server))
    server.close_idle()
    text, _ = await collected(generator(server))
    assert text
    assert server.accepted == 2


async def test_a_kept_connection_that_breaks_on_use_is_replaced_once(server: TgiDouble) -> None:
    await collected(generator(server))
    server.script(Behaviour(failure="gone"))
    text, _ = await collected(generator(server))
    assert text
    assert server.accepted == 2


async def test_a_new_connection_that_breaks_is_not_tried_again(server: TgiDouble) -> None:
    server.script(Behaviour(failure="gone"))
    with pytest.raises(errors.Interrupted):
        await collected(generator(server))
    assert len(server.bodies("/v1/chat/completions")) == 1


async def test_connections_of_a_loop_are_closed_with_it(server: TgiDouble) -> None:
    def elsewhere() -> None:
        asyncio.run(collected(generator(server)))  # type: ignore[arg-type]

    await asyncio.to_thread(elsewhere)
    assert await asyncio.to_thread(wait_for, lambda: server.open_connections == 0, within_s=1)


async def test_overload_under_real_concurrency_is_told_to_those_it_hits() -> None:
    with TgiDouble(max_concurrent=2, behaviour=Behaviour(token_s=0.05)) as server:
        client = generator(server)
        outcomes = await asyncio.gather(
            *(collected(client) for _ in range(6)), return_exceptions=True
        )
    assert sum(isinstance(outcome, tuple) for outcome in outcomes) >= 2
    assert {type(o) for o in outcomes if not isinstance(o, tuple)} == {errors.Overloaded}


async def test_tokens_are_counted_by_the_server(server: TgiDouble) -> None:
    assert await generator(server).count_tokens("one two, three") == 4
    assert await generator(server).count_tokens("") == 0


async def test_info_tells_what_is_served(server: TgiDouble) -> None:
    assert (await generator(server).info())["max_total_tokens"] == 2048


async def test_health_follows_the_server(server: TgiDouble) -> None:
    await generator(server).health()
    server.healthy = False
    with pytest.raises(errors.Unavailable):
        await generator(server).health()


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    client = TgiGenerator(Server("TGI", "http://127.0.0.1:9"))
    begun = time.monotonic()
    with pytest.raises(errors.Unavailable, match="cannot be reached"):
        await collected(client)
    assert time.monotonic() - begun < 2


async def test_metrics_count_the_dropped(server: TgiDouble) -> None:
    server.script(LONG)
    async with aclosing(generator(server).stream(REQUEST)) as stream:
        await anext(stream)
    await asyncio.to_thread(wait_for, lambda: server.disconnects == 1, within_s=1)
    assert 'tgi_request_failure{err="dropped"} 1' in server.metrics()
