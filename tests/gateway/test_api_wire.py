"""The API over a real socket: what a hostile or slow client can and cannot do."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from apps.gateway.models import BudgetCounter, LedgerEntry, Reservation
from tests.cast import Cast
from tests.contract.site import Site, _quiet_doubles, site  # noqa: F401 - fixtures
from tests.contract.tgi import Behaviour
from tests.gateway.api_world import CHAT, chat, make_key
from tests.running_stack import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
MIB = 1024 * 1024


@pytest.fixture
def running(site: Site) -> Site:  # noqa: F811
    return site


@pytest.fixture
def raw_key(cast: Cast) -> str:
    return make_key(cast)


@contextlib.contextmanager
def connected(site: Site, *, buffer_bytes: int = 0) -> Iterator[socket.socket]:  # noqa: F811
    with socket.socket() as connection:
        if buffer_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        connection.settimeout(30)
        connection.connect(("127.0.0.1", site.port))
        yield connection


def request(key: str, body: bytes, *lines: str, version: str = "1.1", path: str = CHAT) -> bytes:
    head = [
        f"POST {path} HTTP/{version}",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Authorization: Bearer {key}",
        *(lines or [f"Content-Length: {len(body)}"]),
    ]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


def reply(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """Status and JSON of one reply that tells its length.

    Reads not a byte further: a second reply may have come in the same packet.
    """
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += _read(connection, 1)
    lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    body = _read(connection, int(headers["content-length"]))
    return int(lines[0].split()[1]), json.loads(body)


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        assert piece, data
        data += piece
    return data


def ask_body(**changes: Any) -> bytes:
    return json.dumps(chat(**changes)).encode()


def test_a_body_of_100_mb_is_refused(running: Site, raw_key: str) -> None:
    with connected(running) as connection:
        connection.sendall(request(raw_key, b"", f"Content-Length: {100 * MIB}"))
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                connection.sendall(b" " * MIB)
        status, error = reply(connection)
    assert (status, error["error"]["code"]) == (413, "too_large")


def test_one_that_tells_no_length_is_refused_too(running: Site, raw_key: str) -> None:
    with connected(running) as connection:
        connection.sendall(request(raw_key, b"", "Transfer-Encoding: chunked"))
        for _ in range(9):
            connection.sendall(b"100000\r\n" + b" " * MIB + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        status, error = reply(connection)
    assert (status, error["error"]["code"]) == (413, "too_large")


def test_a_body_that_never_comes_holds_nothing(running: Site, raw_key: str) -> None:
    with connected(running) as connection:
        connection.sendall(request(raw_key, b'{"mod', "Content-Length: 500"))
    assert not Reservation.objects.exists()
    assert running.tgi.counts["requests"] == 0


def test_two_requests_in_one_go_are_answered_in_order(running: Site, raw_key: str) -> None:
    first, second = ask_body(), ask_body(model="absent")
    with connected(running) as connection:
        connection.sendall(request(raw_key, first) + request(raw_key, second))
        assert reply(connection)[0] == 200
        assert reply(connection)[0] == 404


@pytest.mark.parametrize("stream", [True, False])
def test_the_oldest_http_is_answered(running: Site, raw_key: str, stream: bool) -> None:
    with connected(running) as connection:
        connection.sendall(request(raw_key, ask_body(stream=stream), version="1.0"))
        data = b""
        while piece := connection.recv(65536):
            data += piece
    assert data.startswith((b"HTTP/1.0 200", b"HTTP/1.1 200"))
    assert (b"[DONE]" if stream else b"Paris is the capital.") in data
    assert b"chunked" not in data.lower().partition(b"\r\n\r\n")[0]


@pytest.mark.parametrize("line", ["Authorization: Bearer rk_a\r\n b", "X: a\x00b", "X\x00: b"])
def test_headers_that_are_none_get_no_further(running: Site, line: str) -> None:
    with connected(running) as connection:
        connection.sendall(request("rk_x", b"{}", "Content-Length: 2", line))
        first = connection.recv(64)
    assert not first or first.split()[1] in (b"400", b"401")


def test_a_model_name_cannot_add_a_header(running: Site, raw_key: str) -> None:
    with connected(running) as connection:
        connection.sendall(request(raw_key, ask_body(model="x\r\nSet-Cookie: a=b")))
        status, error = reply(connection)
    assert (status, error["error"]["code"]) == (404, "model_not_found")


def test_addresses_that_are_none_are_answered_in_json(running: Site, raw_key: str) -> None:
    with connected(running) as connection:
        connection.sendall(request(raw_key, b"{}", path="/v1/%00/..%2f%ff"))
        status, error = reply(connection)
    assert (status, error["error"]["code"]) == (404, "not_found")


def test_a_client_that_resets_ends_the_call_and_what_it_held(running: Site, raw_key: str) -> None:
    running.tgi.script(Behaviour(tokens=("a ",) * 2000, token_s=0.02))
    with connected(running) as connection:
        connection.sendall(request(raw_key, ask_body(stream=True)))
        connection.recv(10)
        eventually(lambda: running.tgi.open_generations == 1, within_s=5, what="the call")
        linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    eventually(lambda: running.tgi.disconnects == 1, within_s=1, what="the call to end")
    eventually(lambda: not Reservation.objects.exists(), within_s=1, what="the release")
    assert LedgerEntry.objects.get().outcome == "disconnected"
    assert set(BudgetCounter.objects.values_list("reserved", flat=True)) <= {0}


def test_a_client_that_does_not_read_makes_nothing_grow(running: Site, raw_key: str) -> None:
    # 64 MB in all, far faster than anybody reads, and more than the kernel's buffers take. What
    # may be given again is gathered whole, so that others can read on while this one waits; it is
    # no longer than an answer of the model may be.
    running.tgi.script(Behaviour(tokens=("x" * 200_000,) * 320))
    process = psutil.Process(running.pid)
    with connected(running, buffer_bytes=4096) as connection:
        before = process.memory_info().rss
        body = ask_body(stream=True, max_tokens=320)
        length = f"Content-Length: {len(body)}"
        connection.sendall(request(raw_key, body, length, "Cache-Control: no-store"))
        eventually(lambda: running.tgi.open_generations == 1, within_s=5, what="the call")
        time.sleep(2)
        assert running.tgi.open_generations == 1  # held up, as its reader is
        assert process.memory_info().rss - before < 20 * MIB
    eventually(lambda: running.tgi.disconnects == 1, within_s=5, what="the call to end")
