"""A point from its begin to its end: getting to know the server, stopping, refusing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apps.capacity.errors import TargetDown, WorkloadInvalid
from apps.capacity.load.null_server import Answering
from apps.capacity.load.running import Point
from apps.capacity.load.targets import Address
from apps.capacity.load.types import Job, Lengths, Workload
from apps.capacity.load.wire import Connection
from tests.capacity.load import virtual
from tests.capacity.load.double import Double
from tests.capacity.load.jobs import TARGET, job, measure


def _point(wanted: Job, double: Double, tell: Any = lambda _: None) -> Point:
    dial = virtual.dialling(virtual.paced(double.pacing))
    return Point(wanted, dial, Address.of(TARGET.url), tell=tell)


class Counting(Answering):
    """Counts a word as a token and a half, and a template of 30."""

    def _answer(self, head: bytes, body: bytes) -> None:
        words = 20 + (body.count(b" ") - 20) * 3 // 2
        super()._answer(head, body + b" " * words)


class Refusing(asyncio.Protocol):
    status = b"401 No"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % self.status)


class NoSystem(Answering):
    """The template of a model that knows no system turn."""

    def _answer(self, head: bytes, body: bytes) -> None:
        if b'"role":"system"' in body:
            self._write(b"HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n")
        else:
            super()._answer(head, body)


class TooShort(Answering):
    def _answer(self, head: bytes, body: bytes) -> None:
        super()._answer(head, body.replace(b'"max_tokens":50', b'"max_tokens":40'))


def test_prompts_are_as_the_server_counts_them() -> None:
    lengths = {"prompt": Lengths(mean=400, stdev=50), "output": Lengths(mean=5)}
    wanted = job("constant", 2, duration_s=10, workload=Workload(kind="synthetic", **lengths))
    figures, _ = measure(wanted, lambda: Counting(None))
    assert figures.complete == 20
    told = figures.prompt_tokens / figures.wanted_prompt_tokens
    assert told == pytest.approx(1, abs=0.01)


def test_a_server_that_refuses_everything_is_told_with_its_code() -> None:
    with pytest.raises(TargetDown, match="http_401"):
        measure(job(), Refusing)


def test_a_model_without_system_turns_is_asked_in_one() -> None:
    figures, _ = measure(job("constant", 2, duration_s=10), lambda: NoSystem(None))
    assert (figures.requests, figures.complete) == (20, 20)


def test_another_length_than_asked_for_has_failed() -> None:
    """The null server says that it holds to lengths."""
    figures, _ = measure(job("constant", 2, duration_s=5, tokens=50), lambda: TooShort(None))
    assert figures.errors == {"wrong_length": 10}
    free = job("constant", 2, duration_s=5, tokens=50, full_length=False)
    assert measure(free, lambda: TooShort(None))[0].complete == 10


def test_nothing_listens() -> None:
    async def refused(_: object) -> Connection:
        raise ConnectionRefusedError

    async def point() -> None:
        with pytest.raises(TargetDown, match="connection_refused"):
            await Point(job(), refused, Address.of(TARGET.url)).run()

    virtual.run(point())


def test_a_load_that_sends_nothing_is_refused() -> None:
    with pytest.raises(WorkloadInvalid, match="No request is due"):
        measure(job("poisson", 0.001, duration_s=1), Double(first_s=0.1, gap_s=0.1))


def test_a_generator_that_was_held_up_says_so() -> None:
    """What it should have sent more than a second ago it does not send; the rest it sends late."""
    held: list[float] = []

    def hold_up(progress: dict[str, float | bool]) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        if not held and not progress["warming_up"] and progress["elapsed_s"] > 5:
            held.append(loop.time())
            loop.stand_still(3.0)

    async def run() -> tuple[Any, Point]:
        point = _point(job("constant", 10, duration_s=20), Double(0.1, 0.01), hold_up)
        return await point.run(), point

    figures, point = virtual.run(run())
    assert figures.requests == 200
    assert figures.errors["late"] == pytest.approx(20, abs=1)
    assert {each.outcome for each in point.records if each.error_code} == {"unsent"}
    assert figures.client.late_max_ms == pytest.approx(1000, abs=100)
    assert figures.client.lag_max_ms >= 2900
    assert not figures.client.is_trustworthy
    assert figures.ttft is not None
    assert figures.ttft.max_ms == pytest.approx(1100, abs=100)  # from when it was meant to be sent


@pytest.mark.parametrize("kind", ["poisson", "closed"])
def test_a_stop_drops_what_is_under_way(kind: str) -> None:
    async def stopped() -> tuple[Any, Point, float]:
        point = _point(job(kind, 2, tokens=100), Double(first_s=1.0, gap_s=0.1))
        running = asyncio.create_task(point.run())
        await asyncio.sleep(16)
        point.stop()
        before = asyncio.get_running_loop().time()
        figures = await running
        return figures, point, asyncio.get_running_loop().time() - before

    figures, point, took_s = virtual.run(stopped())
    assert took_s < 1
    assert figures.stopped
    assert figures.requests == len(point.records)
    assert set(figures.errors) == {"stopped"}
    assert not point._under_way


def test_a_stop_during_the_warm_up_measures_nothing() -> None:
    async def stopped() -> Any:
        bounds = {"warmup_requests": 100}
        point = _point(job(bounds=bounds, tokens=100), Double(first_s=5.0, gap_s=0.1))
        running = asyncio.create_task(point.run())
        await asyncio.sleep(7)
        point.stop()
        return await running

    figures = virtual.run(stopped())
    assert (figures.stopped, figures.requests) == (True, 0)


def test_what_does_not_end_is_dropped_after_the_drain() -> None:
    wanted = job("constant", 1, duration_s=10, tokens=2, bounds={"drain_s": 3.0})
    figures, _ = measure(wanted, Double(first_s=0.5, gap_s=5.0))
    # The last is sent at 9 s. Those of 0 to 6 s have ended by 12 s, the others have not.
    assert (figures.complete, figures.errors) == (7, {"drain": 3})
    assert figures.duration_s == pytest.approx(12.0)


def test_a_request_has_its_own_time() -> None:
    wanted = job("constant", 1, duration_s=10, tokens=2, bounds={"request_timeout_s": 4.0})
    figures, point = measure(wanted, Double(first_s=0.5, gap_s=5.0))
    assert figures.errors == {"timeout": 10}
    assert {each.outcome for each in point.records} == {"timed_out"}


def test_progress_is_told_each_second() -> None:
    told: list[dict[str, float | bool]] = []

    async def run() -> None:
        await _point(job("constant", 2, duration_s=10), Double(0.2, 0.0), told.append).run()

    virtual.run(run())
    assert 10 <= len(told) <= 13
    assert told[0]["warming_up"] is True
    assert told[-1]["warming_up"] is False
    assert [each["sent"] for each in told] == sorted(each["sent"] for each in told)
    assert told[-1]["of_s"] == 10.0


def test_a_closed_loop_against_a_server_that_breaks_is_no_flood() -> None:
    class Breaking(Answering):
        def _answer(self, head: bytes, body: bytes) -> None:
            if b'"max_tokens":1,' in body or b"GET" in head:
                super()._answer(head, body)
            else:
                assert self._transport is not None
                self._transport.abort()

    figures, _ = measure(job("closed", 2, duration_s=10), lambda: Breaking(None))
    assert figures.errors == {"closed": figures.requests}
    assert figures.requests <= 2 * 101
