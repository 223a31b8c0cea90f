"""The transport for streams, over real sockets: keeping connections, closing them, bad servers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import pytest_asyncio

from apps.inference import connections
from apps.inference.connections import HEAD_BYTES_MAX, KeptConnections
from tests.contract.loopback import ClientGone, Exchange, LoopbackServer, wait_for

OK = b"HTTP/1.1 200 OK\r\n"


class Scripted(LoopbackServer):
    """Answers each request with the next of `replies`: bytes to send, or something to do."""

    def __init__(self, *replies: bytes | Callable[[Exchange], None]) -> None:
        super().__init__()
        self.replies = list(replies)
        self.connections_seen: list[int] = []
        self.gone = 0

    def handle(self, exchange: Exchange) -> None:
        self.connections_seen.append(id(exchange.connection))
        reply = self.replies.pop(0)
        if isinstance(reply, bytes):
            exchange.send(reply)
            return
        try:
            reply(exchange)
        except ClientGone:
            self.gone += 1
            raise


def whole(body: bytes = b"ok") -> bytes:
    return OK + b"content-length: %d\r\n\r\n%b" % (len(body), body)


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = KeptConnections(ssl.create_default_context(), keep_alive_s=4.0)
    async with httpx.AsyncClient(transport=transport, timeout=httpx.Timeout(5.0)) as client:
        yield client


async def test_a_connection_is_kept_for_the_next_call(client: httpx.AsyncClient) -> None:
    with Scripted(whole(), whole(b"again")) as server:
        assert (await client.post(server.url, json={"a": 1})).content == b"ok"
        assert (await client.get(server.url)).content == b"again"
        assert len(set(server.connections_seen)) == 1
        assert server.requests[0].body == b'{"a":1}'


async def test_calls_at_the_same_time_have_connections_of_their_own(
    client: httpx.AsyncClient,
) -> None:
    with Scripted(*[whole()] * 5) as server:
        await asyncio.gather(*[client.get(server.url) for _ in range(5)])
        assert len(set(server.connections_seen)) == 5


async def test_a_chunked_body_comes_as_it_is_sent(client: httpx.AsyncClient) -> None:
    def reply(exchange: Exchange) -> None:
        exchange.start_stream({})
        exchange.send_chunk(b"one")
        exchange.pause(0.05)
        exchange.send_chunk(b"two")
        exchange.end_stream()

    with Scripted(reply, whole()) as server:
        async with client.stream("POST", server.url) as response:
            assert [piece async for piece in response.aiter_bytes()] == [b"one", b"two"]
        await client.get(server.url)
        assert len(set(server.connections_seen)) == 1


async def test_closing_a_reply_early_tells_the_server_at_once(client: httpx.AsyncClient) -> None:
    def reply(exchange: Exchange) -> None:
        exchange.start_stream({})
        exchange.send_chunk(b"one")
        exchange.pause(30)

    with Scripted(reply, whole()) as server:
        async with client.stream("POST", server.url) as response:
            await anext(response.aiter_bytes())
        assert await asyncio.to_thread(wait_for, lambda: server.gone == 1, within_s=1)
        await client.get(server.url)
        assert len(set(server.connections_seen)) == 2


async def test_cancelling_a_call_tells_the_server_at_once(client: httpx.AsyncClient) -> None:
    with Scripted(lambda exchange: exchange.pause(30)) as server:
        task = asyncio.create_task(client.get(server.url))
        assert await asyncio.to_thread(wait_for, lambda: len(server.requests) == 1, within_s=1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(wait_for, lambda: server.gone == 1, within_s=1)


async def test_a_kept_connection_that_was_closed_is_not_used(client: httpx.AsyncClient) -> None:
    def then_close(exchange: Exchange) -> None:
        exchange.send(whole())
        exchange.connection.close()

    with Scripted(whole(), then_close, whole(b"anew")) as server:
        await client.get(server.url)
        await client.get(server.url)
        assert (await client.get(server.url)).content == b"anew"


async def test_a_kept_connection_that_closes_under_a_request_is_tried_once_more(
    client: httpx.AsyncClient,
) -> None:
    with Scripted(whole(), lambda exchange: exchange.reset(), whole(b"anew")) as server:
        await client.get(server.url)
        assert (await client.get(server.url)).content == b"anew"
        assert len(server.requests) == 3


async def test_a_new_connection_that_closes_is_not_tried_again(client: httpx.AsyncClient) -> None:
    with Scripted(lambda exchange: exchange.reset()) as server:
        with pytest.raises(httpx.ReadError):
            await client.get(server.url)
        assert len(server.requests) == 1


async def test_nothing_is_sent_again_once_a_reply_has_begun(client: httpx.AsyncClient) -> None:
    def half(exchange: Exchange) -> None:
        exchange.send(OK)
        exchange.reset()

    with Scripted(whole(), half) as server:
        await client.get(server.url)
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await client.get(server.url)
        assert len(server.requests) == 2


async def test_connections_too_old_are_not_used(client: httpx.AsyncClient) -> None:
    transport = KeptConnections(ssl.create_default_context(), keep_alive_s=0.0)
    async with httpx.AsyncClient(transport=transport) as impatient:
        with Scripted(whole(), whole()) as server:
            await impatient.get(server.url)
            await impatient.get(server.url)
            assert len(set(server.connections_seen)) == 2


async def test_silence_is_a_timeout() -> None:
    transport = KeptConnections(ssl.create_default_context(), keep_alive_s=4.0)
    async with httpx.AsyncClient(transport=transport, timeout=httpx.Timeout(0.05)) as client:
        with Scripted(lambda exchange: exchange.pause(30)) as server:
            with pytest.raises(httpx.ReadTimeout):
                await client.get(server.url)
            assert await asyncio.to_thread(wait_for, lambda: server.gone == 1, within_s=1)


async def test_nobody_listening_is_a_connect_error(client: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.ConnectError):
        await client.get("http://127.0.0.1:1/")


@pytest.mark.parametrize(
    "reply",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        OK + b"x: " + b"y" * (HEAD_BYTES_MAX + 1) + b"\r\n",
    ],
    ids=["another protocol", "no header", "negative", "smuggled", "switched", "endless head"],
)
async def test_a_reply_that_is_not_http_is_a_protocol_error(
    client: httpx.AsyncClient, reply: bytes
) -> None:
    with Scripted(reply) as server, pytest.raises(httpx.RemoteProtocolError):
        await client.get(server.url)


async def test_a_chunk_that_is_no_chunk_comes_after_what_was_good(
    client: httpx.AsyncClient,
) -> None:
    reply = OK + b"transfer-encoding: chunked\r\n\r\n3\r\none\r\nzz\r\n"
    with Scripted(reply) as server:
        async with client.stream("GET", server.url) as response:
            pieces = response.aiter_bytes()
            assert await anext(pieces) == b"one"
            with pytest.raises(httpx.RemoteProtocolError):
                await anext(pieces)


async def test_a_body_cut_off_is_a_protocol_error(client: httpx.AsyncClient) -> None:
    def cut(exchange: Exchange) -> None:
        exchange.send(OK + b"content-length: 10\r\n\r\nfive!")
        exchange.connection.shutdown(2)

    with Scripted(cut) as server, pytest.raises(httpx.RemoteProtocolError):
        await client.get(server.url)


async def test_a_body_may_end_with_its_connection(client: httpx.AsyncClient) -> None:
    def until_closed(exchange: Exchange) -> None:
        exchange.send(OK + b"connection: close\r\n\r\nall of it")
        exchange.connection.shutdown(2)

    with Scripted(until_closed, whole()) as server:
        assert (await client.get(server.url)).content == b"all of it"
        await client.get(server.url)
        assert len(set(server.connections_seen)) == 2


async def test_interim_replies_are_passed_over(client: httpx.AsyncClient) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
    with Scripted(interim + whole()) as server:
        response = await client.get(server.url)
        assert (response.status_code, response.content) == (200, b"ok")
        assert "link" not in response.headers


async def test_what_nobody_asked_for_reaches_nobody(client: httpx.AsyncClient) -> None:
    with Scripted(whole(b"mine") + whole(b"another's"), whole(b"next")) as server:
        assert (await client.get(server.url)).content == b"mine"
        assert (await client.get(server.url)).content == b"next"
        assert len(set(server.connections_seen)) == 2


async def test_a_reader_that_falls_behind_lets_the_server_wait(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUFFER_BYTES_MAX", 64 * 1024)
    size = 32 * 1024 * 1024  # more than the sockets' own buffers
    sent = asyncio.Event()
    loop = asyncio.get_running_loop()

    def flood(exchange: Exchange) -> None:
        exchange.send(OK + b"content-length: %d\r\n\r\n" % size + bytes(size))
        loop.call_soon_threadsafe(sent.set)

    with Scripted(flood, whole()) as server:
        async with client.stream("GET", server.url) as response:
            for _ in range(100):
                await asyncio.sleep(0.001)
            assert not sent.is_set()
            pieces = [len(piece) async for piece in response.aiter_bytes()]
        assert sum(pieces) == size
        assert (await client.get(server.url)).content == b"ok"


async def test_a_header_with_a_line_end_is_not_sent(client: httpx.AsyncClient) -> None:
    with Scripted() as server, pytest.raises(httpx.LocalProtocolError):
        await client.get(server.url, headers={"x": "a\r\ny: b"})
