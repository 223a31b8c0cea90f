"""Writing what all runs of a process have to say into Redis: one command every 20 ms.

Measured: at 100 answers of 20 frames a second, a command a frame and one to publish it would be
4,000 commands a second; gathered they are at most 50.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

from apps.chat.streams.cancelling import is_cancelled
from apps.chat.streams.keys import KEPT_S, MAX_FRAMES, answer_channel, frames_key
from apps.chat.streams.log import AnswerLog, contiguous
from apps.gateway.redis import client, script

logger = logging.getLogger(__name__)

FLUSH_S = 0.02
# After a fault, so long until the next try.
_PAUSE_S = 0.5
# In one command: Redis serves nobody else meanwhile.
_FRAMES_AT_ONCE = 2000
_BYTES_AT_ONCE = 512 * 1024

# KEYS: streams. ARGV: seconds to keep, most frames; then of each stream its channel, the number of
# its first frame here, how many there are, and the frames. A stream that does not end right before
# is left as it is. Replies, of each: how many it has had.
_APPEND = """
local kept_s, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local at, replies = 3, {}
for i, key in ipairs(KEYS) do
  local channel, first, count = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local last = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)
  local had = 0
  if last[1] then had = tonumber(string.match(last[1][1], '^%d+')) end
  if had == first then
    for n = 1, count do
      local id = string.format('%d-0', first + n)
      redis.call('XADD', key, 'MAXLEN', '~', most, id, 'f', ARGV[at + 2 + n])
    end
    redis.call('EXPIRE', key, kept_s)
    local frames = table.concat(ARGV, '\\n', at + 3, at + 2 + count)
    redis.call('PUBLISH', channel, first .. '\\n' .. frames)
  end
  replies[i] = had
  at = at + 3 + count
end
return replies
"""


async def append(log: AnswerLog) -> bool:
    """Write all of `log` behind what Redis has of it; False where that ends elsewhere, or away."""
    frames = list(log.read(log.base, MAX_FRAMES) or ())
    args: list[str | int] = [KEPT_S, MAX_FRAMES]
    args += [answer_channel(log.answer_id), log.base, len(frames), *frames]
    try:
        (had,) = await script(_APPEND)(keys=[frames_key(log.answer_id)], args=args)
    except (RedisError, OSError) as exc:
        logger.warning("the last frames were not kept: %s", type(exc).__name__)
        return False
    return bool(had == log.base)


class LogWriter:
    """Keeps the logs of this process's own answers in Redis. `note` a log that has grown."""

    def __init__(self, *, on_overtaken: Callable[[uuid.UUID], None]) -> None:
        self._on_overtaken = on_overtaken
        self._grown: dict[uuid.UUID, AnswerLog] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [self._task] if self._task is not None else []

    def note(self, log: AnswerLog) -> None:
        """Have what is new in `log` written soon."""
        if log.holed:
            return
        self._grown[log.answer_id] = log
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write(), name="chat-log-writer")

    async def drain(self, timeout_s: float) -> None:
        """Wait until all is written; not longer than that."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=timeout_s)

    async def _write(self) -> None:
        while self._grown and not is_cancelled():
            await asyncio.sleep(FLUSH_S)
            if not await self._flush():
                await asyncio.sleep(_PAUSE_S)

    async def _flush(self) -> bool:
        """Write one command's worth; False where Redis is away."""
        batch = self._batch()
        keys = [frames_key(log.answer_id) for log, _, _ in batch]
        args: list[str | int] = [KEPT_S, MAX_FRAMES]
        for log, first, frames in batch:
            args += [answer_channel(log.answer_id), first, len(frames), *frames]
        try:
            replies = await script(_APPEND)(keys=keys, args=args) if batch else []
        except (RedisError, OSError) as exc:
            logger.warning("frames were not kept, Redis is away: %s", type(exc).__name__)
            for log in self._grown.values():
                log.lose()
                log.trim()
            return False
        for (log, first, frames), had in zip(batch, replies, strict=True):
            await self._settle(log, first, len(frames), had)
        return True

    def _batch(self) -> list[tuple[AnswerLog, int, list[str]]]:
        batch, count, size = [], 0, 0
        for answer_id, log in list(self._grown.items()):
            frames = list(log.read(log.written, _FRAMES_AT_ONCE - count) or ())
            if log.written < log.base:
                # Dropped before they could be written: better no log than one with a hole.
                log.lose(for_good=True)
                self._grown.pop(answer_id)
            elif not frames:
                self._grown.pop(answer_id)
            else:
                batch.append((log, log.written, frames))
                count += len(frames)
                size += sum(map(len, frames))
            if count >= _FRAMES_AT_ONCE or size >= _BYTES_AT_ONCE:
                break
        return batch

    async def _settle(self, log: AnswerLog, first: int, count: int, had: int) -> None:
        if had == first:
            log.keep(first + count)
        elif had < first:
            # Redis has lost what it had: all again, as far as it is still here.
            log.keep(had)
        elif await _is_ours(log, had):
            log.keep(had)  # an earlier try had arrived after all
        else:
            self._grown.pop(log.answer_id, None)
            log.lose(for_good=True)
            self._on_overtaken(log.answer_id)
        log.trim()


async def _is_ours(log: AnswerLog, had: int) -> bool:
    ours = log.read(had - 1, 1)
    try:
        entries: Any = await client().xrevrange(frames_key(log.answer_id), count=1)
    except (RedisError, OSError):
        return True  # asked again with the next try
    return bool(ours) and ours == contiguous(entries, had - 1)
