"""Waiting for a place at the model's server is said, with the place in line where that is known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from apps.gateway.calling.waiting import InLine, Waiters, telling_of_waits
from tests.cast import Cast
from tests.chat.library import Library, open_library
from tests.chat.processes import WebProcess
from tests.chat.test_consumer import ask, frame_of, until
from tests.contract.tgi import Behaviour

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def library(cast: Cast, settings: Settings) -> Iterator[Library]:
    settings.TITLES, settings.GENERATION_CONCURRENCY = "rule", 1
    settings.RESPONSE_CACHE_TTL_S = 0.0
    with open_library(cast.acme, settings) as opened:
        opened.tgi.default = Behaviour(tokens=tuple(["word "] * 100), token_s=0.04)
        yield opened


@pytest.mark.slow
async def test_who_waits_is_told_how_many_are_before_and_ends_without_an_error(
    cast: Cast, library: Library
) -> None:
    process = WebProcess()
    sockets = [await process.socket(who) for who in (cast.alice, cast.bob, cast.carl)]
    for socket in sockets:
        await socket.send_to(text_data=ask(library))
        await until(socket, "answer.tokens" if socket is sockets[0] else "answer.sources")
        await asyncio.sleep(0.3)
    for before, socket in enumerate(sockets[1:]):
        waiting = (await until(socket, "answer.waiting"))[-1]
        assert (waiting["hop"], waiting["place"], waiting["of"]) == ("generate", before, 2)
    for socket in sockets:
        while (frame := await frame_of(socket, timeout_s=30))["type"] != "answer.finished":
            assert frame["type"] != "error"
        assert frame["state"] == "complete"
        await socket.disconnect()


async def test_a_place_among_several_processes_is_not_made_up() -> None:
    here, there = Waiters("tgi"), Waiters("tgi")
    told: list[InLine] = []
    with telling_of_waits(told.append), here.waiting(), there.waiting():
        while len(told) < 4:  # noqa: ASYNC110 - said once a second
            await asyncio.sleep(0.05)
    assert InLine(None, 2) in told
    assert {line.of for line in told} <= {1, 2}
