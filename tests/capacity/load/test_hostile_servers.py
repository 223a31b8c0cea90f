"""Streams as they come, cut anywhere, and servers that misbehave: every end has its code."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from apps.capacity.load.answers import Answer
from apps.capacity.load.wire import Connection, Server
from tests.capacity.load import virtual

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
TIMEOUT_S = 60.0


def event(chunk: object, end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(chunk).encode() + end


def piece(text: object, finish: str | None = None, **more: object) -> bytes:
    delta = {"role": "assistant", "content": text, **more}
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


USAGE = {"usage": {"prompt_tokens": 40, "completion_tokens": 3}, "choices": []}
DONE = b"data: [DONE]\n\n"
STREAM = piece(None) + piece("a") + piece("b") + piece("c", "length") + event(USAGE) + DONE


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass
class Script(asyncio.Protocol):
    """Writes each piece half a second after the last; then does what `then` says."""

    pieces: tuple[bytes, ...]
    then: str = ""  # "close", "reset"
    gap_s: float = 0.5
    transports: list[virtual.Pipe] = field(default_factory=list)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, virtual.Pipe)
        self.transports.append(transport)

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        for each in self.pieces:
            await asyncio.sleep(self.gap_s)
            self.transports[-1].write(each)
        await asyncio.sleep(self.gap_s)
        if self.then == "close":
            self.transports[-1].close()
        elif self.then == "reset":
            self.transports[-1].reset()


def ask(script: Script, times: int = 1) -> tuple[Answer, str]:
    """The last of so many answers, asked one after another, and its code."""

    async def asked() -> tuple[Answer, str]:
        server = Server(virtual.dialling(lambda: script))
        loop = asyncio.get_running_loop()
        for _ in range(times):
            answer = Answer(most_pieces=1000, keeps_text=True)
            code = await server.ask(b"POST", answer, until=loop.time() + TIMEOUT_S)
            code = code or answer.fault_of_reply()
        server.close()
        await asyncio.sleep(1)
        return answer, code

    return virtual.run(asked())


def code_of(*pieces: bytes, then: str = "") -> str:
    return ask(Script(pieces, then))[1]


def is_good(answer: Answer, code: str) -> bool:
    counts = (answer.prompt_tokens, answer.output_tokens, answer.piece_count)
    return not code and counts == (40, 3, 3) and "".join(answer.text) == "abc"


LENGTH = HEAD + b"content-length: %d\r\n\r\n" % len(STREAM) + STREAM


@pytest.mark.parametrize(
    ("data", "then"),
    [
        (CHUNKED + chunked(STREAM) + b"0\r\n\r\n", ""),
        (CHUNKED + b"".join(map(chunked, STREAM.splitlines(True))) + b"0\r\n\r\n", ""),
        (
            CHUNKED
            + b"".join(chunked(STREAM[i : i + 1]) for i in range(len(STREAM)))
            + b"0\r\nx: y\r\n\r\n",
            "",
        ),
        (LENGTH, ""),
        (HEAD + b"\r\n" + STREAM, "close"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH, ""),
        (LENGTH.replace(b"content-type: text", b"Content-Type: Text"), ""),
    ],
    ids=["chunked", "a chunk a line", "a chunk a byte", "length", "until the end", "100", "case"],
)
@pytest.mark.parametrize("cut", [0, 1, 7, 100])
def test_a_stream_is_read_however_it_is_cut(data: bytes, then: str, cut: int) -> None:
    step = cut or len(data)
    pieces = tuple(data[i : i + step] for i in range(0, len(data), step))
    assert is_good(*ask(Script(pieces, then, gap_s=0.001)))


@pytest.mark.parametrize(
    "stream",
    [
        STREAM.replace(b"\n", b"\r\n"),
        STREAM.replace(b"data: ", b"data:"),
        b": ping\n\n" + STREAM.replace(b"\n\n", b"\n\n:\n\n"),
        STREAM.replace(DONE, b""),
        STREAM + b"data: garbage after the end\n\n",
        STREAM.replace(b'"content"', b'"reasoning_content"'),
        STREAM.replace(b'"content"', b'"reasoning"'),
        STREAM.replace(event(USAGE), event({**USAGE, "choices": [{"delta": {}}]})),
        STREAM.replace(b'"length"', b'"stop_sequence"'),
    ],
    ids=["crlf", "no space", "comments", "no done", "excess", "reasoning", "vllm", "usage", "tgi"],
)
def test_dialects_are_understood(stream: bytes) -> None:
    assert is_good(*ask(Script((CHUNKED + chunked(stream) + b"0\r\n\r\n",))))


def test_times_are_those_of_the_bytes() -> None:
    pieces = (CHUNKED, chunked(piece(None)), chunked(piece("a") + piece("b")), chunked(piece("c")))
    end = chunked(piece("", "stop") + event(USAGE) + DONE) + b"0\r\n\r\n"
    answer, code = ask(Script((*pieces, end)))
    assert not code
    assert answer.first_s == pytest.approx(1.5)
    assert list(answer.pieces) == pytest.approx([1.5, 1.5, 2.0])
    assert (answer.last_s, answer.end_s) == pytest.approx((2.0, 2.5))


def test_a_reply_that_says_it_is_whole_is_not_waited_for() -> None:
    answer, code = ask(Script((CHUNKED + chunked(STREAM),)))
    assert is_good(answer, code)
    assert answer.end_s == pytest.approx(0.5)


def test_usage_that_no_server_sends_is_told_apart() -> None:
    answer, code = ask(
        Script((CHUNKED + chunked(STREAM.replace(event(USAGE), b"")) + b"0\r\n\r\n",))
    )
    assert not code
    assert (answer.output_tokens, answer.piece_count, answer.cached_tokens) == (None, 3, None)


@pytest.mark.parametrize("value", [-1, 1.5, "7", True, None, 10**30, [1]])
def test_counts_that_are_none_are_not_believed(value: object) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": value, "completion_tokens": 3}}
    told = event(usage) if value != 10**30 else event(USAGE).replace(b"40", b"1" * 19)
    stream = STREAM.replace(event(USAGE), told)
    answer, code = ask(Script((CHUNKED + chunked(stream) + b"0\r\n\r\n",)))
    assert (code, answer.output_tokens) == ("", None)


def test_cached_tokens_are_read_where_they_are_told() -> None:
    details = {"usage": {**USAGE["usage"], "prompt_tokens_details": {"cached_tokens": 7}}}  # type: ignore[dict-item]
    for told in ({**USAGE, **details}, {**USAGE, "timings": {"cache_n": 7}}):
        stream = STREAM.replace(event(USAGE), event(told))
        answer, _ = ask(Script((CHUNKED + chunked(stream) + b"0\r\n\r\n",)))
        assert answer.cached_tokens == 7


@pytest.mark.parametrize(
    ("stream", "code"),
    [
        (piece("a") + event({"error": {"message": "x", "http_status_code": 422}}) + DONE,
         "in_band_interrupted"),
        (event({"error": "Model is overloaded", "error_type": "overloaded"}), "in_band_overloaded"),
        (event({"error": {"message": "Model is overloaded", "type": "overloaded",
                          "http_status_code": 422}}) + DONE, "in_band_overloaded"),
        (b"error: {\"code\": 500, \"message\": \"x\"}\n\n", "in_band_interrupted"),
        (event({"error": {"message": "too long", "type": "exceed_context_size_error",
                          "code": 400}}), "in_band_rejected"),
        (piece("a", "abort") + DONE, "in_band_interrupted"),
        (piece("a") + DONE, "no_end"),
        (piece("a"), "no_end"),
        (piece("", "stop") + DONE, "no_text"),
        (b"", "no_end"),
        (b"data: {half\n\n", "not_a_chunk"),
        (b"data: [1]\n\n", "not_a_chunk"),
        (b"data: 7\n\n", "not_a_chunk"),
        (event({"choices": ["x"]}), "not_a_chunk"),
        (b"data: \xff\xfe\n\n", "not_a_chunk"),
        (b"data: " + b"[" * 100_000 + b"\n\n", "not_a_chunk"),
        (b"<html>Welcome</html>", "no_end"),
    ],
)  # fmt: skip
def test_what_goes_wrong_in_a_stream_has_a_code(stream: bytes, code: str) -> None:
    body = chunked(stream) if stream else b""
    assert code_of(CHUNKED + body + b"0\r\n\r\n") == code


@pytest.mark.parametrize(
    ("pieces", "then", "code"),
    [
        ((), "close", "closed"),
        ((), "reset", "reset"),
        ((HEAD,), "close", "closed"),
        ((CHUNKED + chunked(piece("a")),), "close", "closed"),
        ((CHUNKED + chunked(piece("a")),), "reset", "reset"),
        ((HEAD + b"content-length: 999\r\n\r\n" + STREAM[:50],), "close", "closed"),
        ((HEAD + b"\r\n" + piece("a"),), "close", "no_end"),
        ((HEAD + b"\r\n" + piece("a"),), "reset", "reset"),
        ((b"SSH-2.0-OpenSSH_9.2\r\n",), "", "not_http"),
        ((CHUNKED + b"zz\r\n",), "", "not_http"),
        ((b"HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n",), "", "http_429"),
        ((b"HTTP/1.1 401 No\r\nconnection: close\r\n\r\n",), "close", "http_401"),
        ((b"HTTP/1.1 307 No\r\nlocation: http://x\r\ncontent-length: 0\r\n\r\n",), "", "http_307"),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",), "", "not_events"),
        ((b'HTTP/1.1 200 OK\r\ncontent-length: 38\r\n\r\n{"error":"","error_type":"overloaded"}',),
         "", "in_band_overloaded"),
        ((HEAD + b"content-encoding: gzip\r\n\r\n\x1f\x8b",), "", "compressed"),
        ((HEAD, *[b"x-%d: y\r\n" % n * 1000 for n in range(20)]), "", "too_large"),
        ((HEAD + b"x: " + b"y" * 70_000,), "", "too_large"),
        ((CHUNKED + b"5;x=" + b"y" * 70_000,), "", "too_large"),
        ((CHUNKED + chunked(piece("a")) + b"0\r\nx: ", b"y" * 70_000), "", "too_large"),
        ((b"HTTP/1.1 102 Wait\r\n\r\n" * 4000,), "", "too_large"),
        ((CHUNKED,), "", "timeout"),
        ((), "", "timeout"),
    ],
)  # fmt: skip
def test_a_connection_that_goes_wrong_has_a_code(
    pieces: tuple[bytes, ...], then: str, code: str
) -> None:
    assert code_of(*pieces, then=then) == code


def test_keep_alives_do_not_keep_a_request_alive() -> None:
    answer, code = ask(Script((CHUNKED, *[chunked(b":\n\n")] * 500)))
    assert code == "timeout"
    assert answer.end_s == pytest.approx(TIMEOUT_S, abs=0.01)


def test_a_stream_without_end_ends_at_the_time_given() -> None:
    answer, code = ask(Script((CHUNKED, *[chunked(piece("a"))] * 10_000), gap_s=0.01))
    assert code == "timeout"
    assert answer.piece_count == pytest.approx(6000, abs=2)
    assert len(answer.pieces) == 1000  # as many as were asked for


def test_a_hundred_megabytes_without_a_line_take_no_memory() -> None:
    def flood() -> Iterator[bytes]:
        yield HEAD + b"\r\ndata: "
        for _ in range(1600):
            yield b"x" * 65_536

    script = Script(())
    script.pieces = flood()  # type: ignore[assignment]
    tracemalloc.start()
    try:
        assert ask(script)[1] == "too_large"
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_connections_are_kept() -> None:
    script = Script((CHUNKED + chunked(STREAM) + b"0\r\n\r\n",))
    assert is_good(*ask(script, times=3))
    assert len(script.transports) == 1


def test_a_connection_with_bytes_left_over_is_not_kept() -> None:
    script = Script((CHUNKED + chunked(STREAM) + b"0\r\n\r\nHTTP/1.1 200 OK\r\n",))
    assert is_good(*ask(script, times=2))
    assert len(script.transports) == 2


def test_a_kept_connection_that_was_closed_is_tried_again() -> None:
    """As a server does with connections that were idle for long, in the middle of a request."""

    class Closing(Script):
        def data_received(self, data: bytes) -> None:
            if len(self.transports) == 1 and self.asked:
                self.transports[0].close()
            else:
                super().data_received(data)
            self.asked = True

        asked = False

    script = Closing((CHUNKED + chunked(STREAM) + b"0\r\n\r\n",))
    assert is_good(*ask(script, times=2))
    assert len(script.transports) == 2


def test_nothing_listens() -> None:
    async def refused(_: object) -> Connection:
        raise ConnectionRefusedError

    async def asked() -> str:
        return await Server(refused).ask(b"", Answer(most_pieces=1), until=60.0)

    assert virtual.run(asked()) == "connection_refused"


def test_an_open_that_takes_for_ever_times_out() -> None:
    async def never(_: object) -> Connection:
        await asyncio.sleep(10_000)
        raise AssertionError

    async def asked() -> tuple[str, float | None, float | None]:
        answer = Answer(most_pieces=1)
        code = await Server(never).ask(b"", answer, until=60.0)
        return code, answer.sent_s, answer.end_s

    assert virtual.run(asked()) == ("timeout", None, 60.0)
