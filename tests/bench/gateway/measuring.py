"""The measurements: paired blocks, the cache, identical questions, round trips."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import psycopg
import redis

from ragsite.stack.catalogue import DATABASE
from ragsite.stack.postgres import SUPERUSER, Postgres
from tests.bench.gateway.load import Timing
from tests.bench.gateway.stand import Bench, send


@dataclass(frozen=True)
class Block:
    """Requests of one kind, of all rounds together."""

    timings: Sequence[Timing]

    @property
    def failed(self) -> int:
        return sum(timing is None for timing in self.timings)

    def first_ms(self, share: float) -> float:
        return self._quantile(0, share)

    def total_ms(self, share: float) -> float:
        return self._quantile(1, share)

    def _quantile(self, column: int, share: float) -> float:
        """Of all requests: one that failed took for ever."""
        values = sorted(timing[column] if timing else float("inf") for timing in self.timings)
        return values[min(len(values) - 1, round(share * (len(values) - 1)))]


@dataclass(frozen=True)
class Level:
    """Direct and through the gateway at one number of streams."""

    streams: int
    direct: Block
    direct_again: Block  # the same once more: what the machine itself varies by
    gateway: Block
    null: Block  # the generator's own time: the whole stream at once
    cpu_ms: float  # of the web process, a request
    requests_per_s: float  # that were done, not that could be


def level(bench: Bench, streams: int, *, rounds: int, each: int) -> Level:
    """`rounds` times a direct block, one through the gateway, and a direct one again."""
    count = streams * each
    direct: list[Timing] = []
    again: list[Timing] = []
    gateway: list[Timing] = []
    cpu_s = 0.0
    send(bench.through_gateway(streams, streams))  # connections, prepared statements, caches
    for _ in range(rounds):
        direct += send(bench.directly(streams, count))
        before = bench.site_cpu_s()
        gateway += send(bench.through_gateway(streams, count))
        cpu_s += bench.site_cpu_s() - before
        again += send(bench.directly(streams, count))
    block = Block(gateway)
    return Level(
        streams,
        Block(direct),
        Block(again),
        block,
        Block(send(bench.directly(streams, count, path="/null/chat"))),
        cpu_ms=cpu_s * 1000 / len(gateway),
        requests_per_s=streams / block.total_ms(0.5) * 1000,
    )


def burst(bench: Bench, streams: int, *, rounds: int) -> tuple[Block, Block]:
    """All streams' requests at the same instant, directly and through the gateway."""
    orders = bench.directly(streams, streams), bench.through_gateway(streams, streams)
    at_once = [replace(order, spread_s=0.0) for order in orders]
    sent: tuple[list[Timing], list[Timing]] = ([], [])
    for _ in range(rounds):
        for timings, order in zip(sent, at_once, strict=True):
            timings += send(replace(order, series=f"{order.series}-{len(timings)}"))
    return Block(sent[0]), Block(sent[1])


def hits(bench: Bench, count: int) -> Block:
    """One answer from the response cache, again and again, one after another."""
    order = replace(bench.through_gateway(1, 1, cached=True), same=True)
    send(order)
    return Block(send(replace(order, requests=count, awaits="x-ragsite-cache: hit")))


def identical(bench: Bench, count: int) -> tuple[Block, int]:
    """So many identical questions at the same instant, and how many calls they cost."""
    order = replace(bench.through_gateway(count, count, cached=True), same=True, spread_s=0.0)
    before = bench.upstream_calls()
    return Block(send(order)), bench.upstream_calls() - before


@dataclass(frozen=True)
class RoundTrips:
    """Of one request: how often Redis and PostgreSQL are asked, and what."""

    redis: Counter[str]
    postgres: Counter[str]
    requests: int


def round_trips(bench: Bench, requests: int) -> RoundTrips:
    """Counted by the servers themselves, over requests one after another."""
    order = bench.through_gateway(1, requests)
    send(replace(order, requests=5))
    with _monitored(bench) as commands, _logged(bench) as statements:
        send(replace(order, series=f"{order.series}-counted"))
    return RoundTrips(Counter(commands), Counter(statements()), requests)


@contextmanager
def _monitored(bench: Bench) -> Iterator[list[str]]:
    """Names of the commands that clients send to Redis during the block; not those of scripts."""
    commands: list[str] = []
    url = bench.stand.plan.environment["REDIS_URL"]
    with redis.Redis.from_url(url) as client, client.monitor() as monitor:
        thread = threading.Thread(target=_listen, args=(monitor, commands), daemon=True)
        thread.start()
        yield commands
        client.echo(_LAST)
        thread.join(10)


_LAST = "the last command"


def _listen(monitor: redis.client.Monitor, commands: list[str]) -> None:
    for command in monitor.listen():  # type: ignore[no-untyped-call]
        text = command["command"]
        if _LAST in text:
            return
        if command["client_type"] != "lua":
            commands.append(text.split(" ", 1)[0].upper())


@contextmanager
def _logged(bench: Bench) -> Iterator[Callable[[], list[str]]]:
    """The first words of the statements that PostgreSQL is sent during the block."""
    state = bench.stand.plan.state
    server = Postgres(state.root / "postgres", log=state.log("postgres"))
    with psycopg.connect(server.url(SUPERUSER, DATABASE), autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET log_statement = 'all'")
        admin.execute("SELECT pg_reload_conf()")
        admin.execute("SELECT pg_sleep(0.5)")
        begin = state.log("postgres").stat().st_size
        try:
            yield lambda: _statements(state.log("postgres").read_bytes()[begin:])
        finally:
            admin.execute("ALTER SYSTEM RESET log_statement")
            admin.execute("SELECT pg_reload_conf()")


_STATEMENT = re.compile(rb"LOG:  (?:statement|execute [^:]*): +(.*)")


def _statements(log: bytes) -> list[str]:
    found = (match.decode("utf-8", "replace") for match in _STATEMENT.findall(log))
    return [_words(text) for text in found if "pg_sleep" not in text and "pg_reload" not in text]


def _words(statement: str) -> str:
    """What a statement does, without its values."""
    called = re.match(r'SELECT (?:\* FROM )?"?(\w+)"?\(', statement)
    if called:
        return f"SELECT {called[1]}()"
    table = re.search(r'(?:FROM|INTO|UPDATE) "?(\w+)"?', statement)
    return f"{statement.split(' ', 1)[0]} {table[1]}" if table else statement[:30]
