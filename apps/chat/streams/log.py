"""An answer's frames: the latest in memory, all of them in Redis."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from apps.chat.streams.keys import MAX_BYTES, MAX_FRAMES, Owned, frames_key
from apps.gateway.redis import client

# Kept in memory once they are in Redis. An owner's suffice to write a minute's answer anew when
# Redis has lost it (20 frames a second, 0.2 KB each); a mirror's to bridge a slow moment.
OWNED_TAIL = 1200
MIRRORED_TAIL = 200


class AnswerLog:
    """Frames `base` to `end - 1`, encoded. Whoever writes appends; whoever reads has a cursor."""

    def __init__(self, owned: Owned, *, base: int = 0, tail: int = OWNED_TAIL) -> None:
        self.owned = owned
        self.answer_id = owned[1]
        self.base = base
        self.ended = False  # the last frame is there
        self.broken = False  # a mirror: what comes next cannot be had any more
        self.was_dead = False  # a mirror: its owner was found dead before
        self.holed = False  # an owner's: Redis has not got all and never will
        self.written = base  # how many are in Redis, as far as is known here
        self.unkept = False  # an owner's: Redis is away
        self.bytes = 0
        self.watchers: set[Callable[[], None]] = set()
        self._frames: list[str] = []
        self._tail = tail

    @property
    def end(self) -> int:
        return self.base + len(self._frames)

    @property
    def shown(self) -> int:
        """How far sockets may be sent: up to what is kept, so that no death of a process can take
        back what somebody has seen. Without Redis there is nothing to wait for."""
        return self.end if self.unkept or self.holed else max(self.base, self.written)

    def append(self, frame: str, *, last: bool = False) -> None:
        """One more frame of one's own; watchers are told once it is kept."""
        self._frames.append(frame)
        self.bytes += len(frame)
        self.ended = self.ended or last
        if self.unkept or self.holed:
            self.tell()

    def mirror(self, frames: Sequence[str]) -> None:
        """More frames that Redis has."""
        for frame in frames:
            self.append(frame, last=is_last(frame))
        self.written = self.end
        self.tell()

    def keep(self, count: int) -> None:
        """Redis has so many."""
        self.written = count
        self.unkept = False
        self.tell()

    def lose(self, *, for_good: bool = False) -> None:
        """Redis cannot be had now, or will never have it all."""
        self.unkept = True
        self.holed = self.holed or for_good
        self.tell()

    def tell(self) -> None:
        for watcher in list(self.watchers):
            watcher()

    def read(self, seq: int, limit: int) -> Sequence[str] | None:
        """At most `limit` frames from `seq` on; None where they are not in memory any more."""
        if seq < self.base:
            return None
        start = seq - self.base
        return self._frames[start : start + limit]

    def trim(self) -> None:
        """Let go of what is in Redis, but for the tail. Without Redis, of what is too much."""
        spare = min(len(self._frames) - self._tail, self.written - self.base)
        if self.bytes > MAX_BYTES or len(self._frames) > MAX_FRAMES:
            spare = max(spare, len(self._frames) // 2)
        # By the hundred: cutting the list costs as much as it has entries.
        if spare >= 100 or (spare > 0 and self.bytes > MAX_BYTES):
            self.bytes -= sum(map(len, self._frames[:spare]))
            del self._frames[:spare]
            self.base += spare

    def break_off(self) -> None:
        """Say that nothing more can be had."""
        self.broken = True
        self.tell()


def is_last(frame: str) -> bool:
    """Whether it is an answer's last; by its beginning, for each is written by `frames.encode`."""
    return frame.startswith('{"v":2,"type":"answer.finished"')


async def read_kept(answer_id: uuid.UUID, seq: int, limit: int) -> list[str] | None:
    """Frames from `seq` on as Redis has them; an empty list where there is none yet.

    None where some are missing. Raises RedisError or OSError where Redis is away.
    """
    key = frames_key(answer_id)
    entries: Any = await client().xrange(key, min=f"{seq + 1}-0", count=limit)
    return contiguous(entries, seq)


async def last_kept(answer_id: uuid.UUID) -> tuple[int, bool]:
    """The number of the last frame in Redis (-1: none) and whether it ends the answer.

    Raises RedisError or OSError where Redis is away.
    """
    entries: Any = await client().xrevrange(frames_key(answer_id), count=1)
    if not entries:
        return -1, False
    entry_id, fields = entries[0]
    return _seq(entry_id), is_last(fields[b"f"].decode())


def contiguous(entries: Sequence[tuple[bytes, dict[bytes, bytes]]], seq: int) -> list[str] | None:
    """The frames of a stream's entries; None where the first is not `seq`, or one is missing."""
    frames = []
    for expected, (entry_id, fields) in enumerate(entries, start=seq):
        if _seq(entry_id) != expected:
            return None
        frames.append(fields[b"f"].decode())
    return frames


def _seq(entry_id: bytes) -> int:
    return int(entry_id.partition(b"-")[0]) - 1
