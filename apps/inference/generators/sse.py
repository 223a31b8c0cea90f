"""Server-sent events out of bytes, as model servers write them.

Not httpx-sse: it drops the bare `error:` field that llama.cpp builds emit, decodes by the
reply's declared charset (events are UTF-8 whatever it says), and has no limit on a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

# A chunk with log-probabilities is a few KiB; anything near this is not a chunk.
EVENT_BYTES_MAX = 1024 * 1024


class EventTooLarge(ValueError):
    """More than EVENT_BYTES_MAX came without an end of line or event."""


@dataclass(frozen=True)
class ServerEvent:
    """One event: its joined `data:` lines, and those of a bare `error:` field."""

    data: str = ""
    error: str = ""


@dataclass
class EventDecoder:
    """Bytes in, events out, however the bytes were cut.

    Lines end in LF or CRLF. They are split as bytes, before decoding: a character cut in two by
    the network is whole again by then. Comments (`:` keep-alives) yield nothing.
    """

    _rest: bytes = b""
    _data: list[str] = field(default_factory=list)
    _error: list[str] = field(default_factory=list)
    _size: int = 0

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Events that `chunk` completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) + self._size > EVENT_BYTES_MAX:
            raise EventTooLarge
        for line in lines:
            yield from self._line(line.removesuffix(b"\r"))

    def end(self) -> Iterator[ServerEvent]:
        """The event of complete lines that no blank line followed; half a line is dropped."""
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[ServerEvent]:
        if not line:
            if self._data or self._error:
                yield ServerEvent("\n".join(self._data), "\n".join(self._error))
            self._data, self._error, self._size = [], [], 0
            return
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "error":
            self._error.append(value)
        self._size += len(line)
        if self._size > EVENT_BYTES_MAX:
            raise EventTooLarge
