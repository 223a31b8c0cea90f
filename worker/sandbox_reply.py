"""What a sandboxed process says, read as the words of an enemy.

A reply is MessagePack: nothing in it is executed. Its objects are counted before any is made,
because a byte can become an object of a hundred; its items are waited for only so long.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Callable
from typing import IO, Any

import msgpack  # type: ignore[import-untyped]

from worker.sandbox_errors import SandboxCrashed, SandboxOutputTooLarge, SandboxRefused

# About 200 MiB of small Python objects; a part of a document has some thousands.
_OBJECTS_MAX = 2_000_000
_MESSAGE_MAX_CHARS = 1000
_CODE = re.compile(r"[a-z][a-z0-9_]{0,39}")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")  # of which PostgreSQL takes no NUL
_READ_BYTES = 1 << 16  # what a pipe holds
_LOOK_S = 1.0

# By first byte, as the MessagePack specification has it: bytes of a number or of a length that
# follow, what a unit of that length is, and how many bytes come besides.
_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_ARRAYS, _MAPS = {0xDC: 2, 0xDD: 4}, {0xDE: 2, 0xDF: 4}


def unpack_reply(data: bytes | bytearray) -> dict[str, Any]:
    """The answer. Raises SandboxRefused where it is a refusal, SandboxCrashed where it is none."""
    try:
        if _count_objects(data) > _OBJECTS_MAX:
            raise SandboxCrashed("the reader's result has too many parts.")
        answer = dict(msgpack.unpackb(data, strict_map_key=False))
    except (ValueError, TypeError, IndexError) as exc:
        raise no_result() from exc
    if "refused" in answer:
        raise _refusal(answer)
    return answer


def no_result() -> SandboxCrashed:
    return SandboxCrashed("the reader gave no result.")


def _refusal(answer: dict[str, Any]) -> SandboxRefused | SandboxCrashed:
    code, message = answer["refused"], answer.get("message", "")
    if not isinstance(code, str) or not isinstance(message, str) or not _CODE.fullmatch(code):
        return no_result()
    return SandboxRefused(code, _CONTROLS.sub(" ", message[:_MESSAGE_MAX_CHARS]))


def _count_objects(data: bytes | bytearray) -> int:
    """How many objects `data` announces, up to just over the limit. Nothing is made of it.

    Raises ValueError for a type that is never sent, IndexError where `data` ends too soon.
    """
    at, count, announced, end = 0, 0, 1, len(data)
    while count < announced <= _OBJECTS_MAX:
        first = data[at]
        at += 1
        count += 1
        if first <= 0x7F or first >= 0xE0 or first in (0xC0, 0xC2, 0xC3):
            continue
        if 0xA0 <= first <= 0xBF:
            at += first & 0x1F
        elif first in _FIXED:
            at += _FIXED[first]
        elif first in _SIZED:
            width = _SIZED[first]
            at += width + int.from_bytes(data[at : at + width], "big")
        elif first <= 0x8F:
            announced += 2 * (first & 0x0F)
        elif first <= 0x9F:
            announced += first & 0x0F
        elif first in _ARRAYS or first in _MAPS:
            width = _ARRAYS.get(first) or _MAPS[first]
            members = int.from_bytes(data[at : at + width], "big")
            announced += members if first in _ARRAYS else 2 * members
            at += width
        else:
            raise ValueError(f"a type that is not sent: {first:#x}")
        if at > end:
            raise IndexError
    return announced


class Items:
    """Length-prefixed answers off a pipe, within limits on each and on all together.

    Time is counted while waiting here, not while an item is being used. `look` is called about
    every second of it.
    """

    def __init__(
        self,
        pipe: IO[bytes],
        look: Callable[[], None],
        *,
        item_bytes: int,
        all_bytes: int,
        item_s: float,
        all_s: float,
    ) -> None:
        self.pipe, self.look = pipe, look
        self.item_bytes, self.all_bytes, self.left_bytes = item_bytes, all_bytes, all_bytes
        self.item_s, self.left_s = item_s, all_s
        self.next_look = time.monotonic() + _LOOK_S
        self.timed_out = False
        self.complete = False
        self.poll = select.poll()
        self.poll.register(pipe, select.POLLIN)

    def next(self) -> dict[str, Any] | None:
        """The next item; None at the end, whichever way it came."""
        start = time.monotonic()
        deadline = start + min(self.item_s, self.left_s)
        data = self._message(deadline)
        self.left_s -= time.monotonic() - start
        if data is None:
            return None
        answer = unpack_reply(data)
        self.complete = "end" in answer
        return answer if "item" in answer else None

    def _message(self, deadline: float) -> bytearray | None:
        head = self._read(4, deadline)
        if len(head) < 4:
            return None
        size = int.from_bytes(head, "big")
        self.left_bytes -= size
        if size > self.item_bytes:
            raise SandboxOutputTooLarge(self.item_bytes)
        if self.left_bytes < 0:
            raise SandboxOutputTooLarge(self.all_bytes)
        data = self._read(size, deadline)
        return data if len(data) == size else None

    def _read(self, size: int, deadline: float) -> bytearray:
        """`size` bytes, or as many as came before the end or the deadline."""
        got = bytearray()
        while len(got) < size and not self.timed_out:
            now = time.monotonic()
            if now >= self.next_look:
                self.next_look = now + _LOOK_S
                self.look()
            if now >= deadline:
                self.timed_out = True
            elif self.poll.poll(max(0.0, min(deadline, self.next_look) - now) * 1000):
                data = self.pipe.read(min(size - len(got), _READ_BYTES))
                if not data:
                    break
                got += data
        return got
