"""The fault run: many streams, while sockets are cut, web processes killed and readers stall.

Two real web processes stand behind a switch that hands connections to whichever is up, as a load
balancer does. Readers come back by themselves, and compare what they saw with what was said.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from pytest_django import Settings

from apps.chat.models import Message
from apps.chat.streams.sweeping import sweep
from apps.tenants.aio import in_scope, in_thread
from ragsite.stack.process import free_port
from ragsite.stack.state import BASE_DIR
from tests.cast import Cast, signed_in
from tests.chat.library import Library, open_library
from tests.chat_client import ChatClient, FollowedAnswer
from tests.contract.tgi import Behaviour

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

STREAMS = 200
STALLED = STREAMS // 10
TOKENS = tuple(f"token{n} " for n in range(60))
TOKEN_S = 0.25
ASKED_OVER_S = 20.0
ORIGIN = "http://127.0.0.1:8000"
KILLS = 2


class Backend:
    """A web process that may be killed and started again."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.port = free_port()
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "daphne", "--bind=127.0.0.1", f"--port={self.port}"]
        self._process = subprocess.Popen(
            [*command, "ragsite.asgi:application"], cwd=BASE_DIR, env=self._environment
        )

    @property
    def is_up(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            address = f"http://127.0.0.1:{self.port}/v1/openapi.json"
            return httpx.get(address, trust_env=False, timeout=20).is_success
        return False

    def wait(self) -> None:
        until = time.monotonic() + 90
        while not self.is_up:
            assert time.monotonic() < until, "a web process does not answer"
            time.sleep(0.2)

    def kill(self) -> None:
        """Without a word, as the kernel does when memory runs out."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)

    @property
    def pss_kib(self) -> int:
        """Its share of memory; 0 while it is down."""
        assert self._process is not None
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{self._process.pid}/smaps_rollup").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return 0


class Switch:
    """Hands connections to the backends in turn, passing over one that is down; may cut them."""

    def __init__(self, backends: list[Backend]) -> None:
        self.port = free_port()
        self.cuts = 0
        self._backends = backends
        self._next = 0
        self._open: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)
        try:
            yield
        finally:
            server.close()
            self.cut(1.0, random.Random(0))  # noqa: S311 - no secret

    def cut(self, share: float, chance: random.Random) -> None:
        """Reset some of the connections."""
        for writer in list(self._open):
            if chance.random() < share:
                self.cuts += 1
                writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await self._pass_on(reader, writer)
        except (OSError, asyncio.CancelledError):
            return
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self._backends:
            self._next = (self._next + 1) % len(self._backends)
            backend = self._backends[self._next]
            try:
                inward = await asyncio.open_connection("127.0.0.1", backend.port)
            except OSError:
                continue
            ways = [_copy(reader, inward[1]), _copy(inward[0], writer)]
            tasks = [asyncio.create_task(way) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            inward[1].transport.abort()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()  # a stalled reader is felt at the site


@dataclass
class Reader:
    """One person's page and the answer that it reads."""

    client: ChatClient
    stalls: bool
    answer: FollowedAnswer | None = None


@dataclass
class Report:
    """What came of the run, to be read with `-s`."""

    states: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    connects: int = 0
    cuts: int = 0
    pss_mib: list[float] = field(default_factory=list)
    took_s: float = 0.0


@pytest.fixture
def library(cast: Cast, settings: Settings) -> Iterator[Library]:
    with open_library(cast.acme, settings) as opened:
        opened.tgi.max_concurrent = 10_000
        opened.tgi.default = Behaviour(tokens=TOKENS, token_s=TOKEN_S)
        yield opened


@pytest.fixture
def backends(library: Library) -> Iterator[list[Backend]]:
    environment = {
        **os.environ,
        "TGI_URL": library.tgi.url,
        "OPENAI_URL": "",
        "EMBEDDER": "tei",
        "TEI_URL": library.tei.url,
        "RERANKER": "off",
        "TITLES": "rule",
        "RESPONSE_CACHE_TTL_S": "0",
        "LOG_LEVEL": "ERROR",
        "GENERATION_CONCURRENCY": str(2 * STREAMS),
    }
    backends = [Backend(environment), Backend(environment)]
    try:
        for backend in backends:
            backend.start()
        for backend in backends:
            backend.wait()
        yield backends
    finally:
        for backend in backends:
            backend.stop()


async def read_one(reader: Reader, collection: str) -> None:
    """Ask, and read to the end; a question that broke off before it began is asked again."""
    await asyncio.sleep(random.uniform(0, ASKED_OVER_S))  # noqa: S311 - no secret
    for number in range(50):
        try:
            await asyncio.wait_for(reader.client.connected.wait(), 60)
            question = f"How many days of paid leave do employees receive? ({number})"
            reader.answer = await reader.client.ask(question, collections=[collection])
            break
        except (ConnectionError, TimeoutError):
            await asyncio.sleep(0.2)
    assert reader.answer is not None, "a question never arrived"
    if reader.stalls:
        reader.client.stall()
        await asyncio.sleep(8)
        reader.client.go_on()
    with contextlib.suppress(TimeoutError):  # told of below
        await reader.answer.finished(timeout_s=120)


async def disturb(backends: list[Backend], switch: Switch, report: Report) -> None:
    """Cut a tenth of the sockets each second; kill one process after the other, and start it."""
    chance = random.Random(11)  # noqa: S311 - no secret
    for kill in range(KILLS):
        for _ in range(4):
            await asyncio.sleep(1)
            switch.cut(0.1, chance)
            report.pss_mib.append(sum(backend.pss_kib for backend in backends) / 1024)
        backend = backends[kill % 2]
        await asyncio.to_thread(backend.kill)
        backend.start()
        await asyncio.to_thread(backend.wait)


def judge(readers: list[Reader], stored: dict[str, Message], report: Report) -> None:
    """Every stream ended, whole or marked; nothing was lost, doubled or out of order."""
    whole = "".join(TOKENS)
    for reader in readers:
        answer = reader.answer
        assert answer is not None
        message = stored[answer.id]
        report.states[message.state] += 1
        report.connects += reader.client.connects
        report.faults += answer.faults
        if message.state == "failed" or message.kind != "generated":
            # The machine was too slow for the model's server or the database, and that was said.
            report.states["degraded"] += 1
            continue
        if message.state not in ("complete", "interrupted"):
            report.faults.append(f"stored as {message.state}")
        if not whole.startswith(message.text):
            report.faults.append("the stored text is not what was said")
        if answer.gone:
            report.states["gone"] += 1  # the page shows the stored answer
        elif answer.end is None:
            report.faults.append(f"never ended, stored as {message.state}")
        elif answer.end["state"] != message.state:
            report.faults.append("the end differs from what is stored")
        elif message.state == "complete" and (answer.text != whole or message.text != whole):
            report.faults.append("complete, but not whole")
        elif not message.text.startswith(answer.text):
            # A checkpoint may hold more than the frames did; nobody has seen what is not kept.
            report.faults.append("what was shown is not what is stored")


async def open_readers(cast: Cast, switch: Switch) -> list[Reader]:
    """Pages of three people, one answer each."""
    browsers = [await in_thread(signed_in, who) for who in (cast.alice, cast.bob, cast.carl)]
    cookies = [f"sessionid={browser.cookies['sessionid'].value}" for browser in browsers]
    url = f"ws://127.0.0.1:{switch.port}/ws/t/acme/chat/"
    readers = [
        Reader(ChatClient(url, cookie=cookies[number % 3], origin=ORIGIN), stalls=number < STALLED)
        for number in range(STREAMS)
    ]
    for first in range(0, STREAMS, 20):
        opening = [each.client.__aenter__() for each in readers[first : first + 20]]
        await asyncio.gather(*opening)
    return readers


async def all_ended(cast: Cast) -> dict[str, Message]:
    """The stored answers, once the clock's sweep has ended those that nobody followed."""

    def read() -> dict[str, Message]:
        return {str(each.id): each for each in Message.objects.filter(role="answer")}

    async with asyncio.timeout(40):
        while True:
            stored = await in_scope(cast.acme.id, read)
            if not any(each.state == "streaming" for each in stored.values()):
                return stored
            await in_thread(sweep)
            await asyncio.sleep(2)


async def test_streams_survive_cut_sockets_killed_processes_and_stalled_readers(
    cast: Cast, library: Library, backends: list[Backend]
) -> None:
    report, began = Report(), time.monotonic()
    switch = Switch(backends)
    async with switch.serving():
        readers = await open_readers(cast, switch)
        collection = str(library.collection.id)
        reading = [asyncio.create_task(read_one(each, collection)) for each in readers]
        await disturb(backends, switch, report)
        await asyncio.gather(*reading)
        report.pss_mib.append(sum(backend.pss_kib for backend in backends) / 1024)
        for reader in readers:
            await reader.client.__aexit__()
    report.cuts = switch.cuts
    judge(readers, await all_ended(cast), report)
    report.took_s = time.monotonic() - began
    sys.stdout.write(f"\n{report}\n")
    assert not report.faults
    assert report.states["complete"] > STREAMS // 10
    assert report.states["interrupted"] > 0
    assert report.states["degraded"] <= STREAMS // 10
    # The same work to do, and no more held at its end than a third above its beginning.
    assert report.pss_mib[-1] < 1.33 * report.pss_mib[0]
