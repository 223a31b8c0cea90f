"""Keeping the parts of a stack running: in order, again after a crash, and to a clean end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from ragsite.stack import process
from ragsite.stack.part import POLL_S, Part
from ragsite.stack.process import PartFailed

CRASHES_ALLOWED = 5
CRASH_WINDOW_S = 60.0
_BACK_OFF_S = (0.5, 1.0, 2.0, 4.0, 8.0)
_WATCH_S = 0.2

Tell = Callable[[str, str], None]  # part, words for the person at the terminal


class Supervisor:
    """Runs parts. Made by `supervised`, which starts and stops them."""

    def __init__(self, parts: Sequence[Part], tell: Tell) -> None:
        self._parts = parts
        self._tell = tell
        self._up = {part.name: asyncio.Event() for part in parts}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    async def ready(self, *names: str) -> None:
        """Return when the named parts (those that this stack has) are up."""
        for name in names:
            if name in self._up:
                await self._up[name].wait()

    async def run_step(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> int:
        """Run a process at our terminal to its end, or until the parts stop; its exit status."""
        running = process.start(command, log=None, env=env, death_signal=signal.SIGKILL)
        self._running[name] = running
        code = await _end_of(running)
        del self._running[name]
        return code

    async def keep(self, part: Part) -> None:
        """Start `part` after what it needs, and again when it ends; a step is run once.

        Raises PartFailed when a step fails, or a part has crashed CRASHES_ALLOWED times within
        CRASH_WINDOW_S.
        """
        await self.ready(*part.needs)
        crashes: deque[float] = deque(maxlen=CRASHES_ALLOWED)
        while True:
            try:
                running = await self._start(part)
                if part.one_shot:
                    return
                code = await _end_of(running)
                reason = f"{part.name} ended ({process.exit_words(code)})"
            except PartFailed as exc:
                if part.one_shot:
                    raise part.failure(exc) from None
                reason = str(exc)
            self._up[part.name].clear()
            await self._clean_up_after(part)
            await self._back_off(part, crashes, reason)

    async def stop(self) -> None:
        """Stop the parts in the opposite of their order, each with its own grace."""
        steps = set(self._running) - {part.name for part in self._parts}
        for name in steps:
            await asyncio.to_thread(process.stop, self._running[name], signal.SIGTERM)
        for part in reversed(self._parts):
            running = self._running.get(part.name)
            if running is None:
                continue
            if running.poll() is None:
                self._tell(part.name, "stopping")
            await asyncio.to_thread(part.stop, running)

    def kill(self) -> None:
        """End everything now: for the person who cannot wait."""
        for running in self._running.values():
            process.kill_group(running)

    async def _start(self, part: Part) -> subprocess.Popen[bytes]:
        started = time.monotonic()
        await asyncio.to_thread(part.prepare)
        # In this thread: the kernel ties a child's life to the thread that started it.
        running = part.spawn()
        self._running[part.name] = running
        while not await asyncio.to_thread(  # noqa: ASYNC110 - a process is asked, not told
            part.came_up, running, waited_s=time.monotonic() - started
        ):
            await asyncio.sleep(POLL_S)
        await asyncio.to_thread(part.finish)
        self._up[part.name].set()
        word = "done" if part.one_shot else "up"
        self._tell(part.name, f"{word} in {time.monotonic() - started:.1f} s")
        return running

    async def _clean_up_after(self, part: Part) -> None:
        """End the children that a crashed part left, or the part itself when it hangs."""
        if part.name in self._running:
            await asyncio.to_thread(part.stop, self._running.pop(part.name))

    async def _back_off(self, part: Part, crashes: deque[float], reason: str) -> None:
        now = time.monotonic()
        crashes.append(now)
        recent = [moment for moment in crashes if now - moment < CRASH_WINDOW_S]
        if len(recent) == CRASHES_ALLOWED:
            raise part.failure(
                f"{part.name} crashed {CRASHES_ALLOWED} times within {CRASH_WINDOW_S:.0f} s, "
                f"last: {reason}"
            )
        delay_s = _BACK_OFF_S[len(recent) - 1]
        self._tell(part.name, f"{reason}; starting it again in {delay_s:.1f} s")
        await asyncio.sleep(delay_s)


@asynccontextmanager
async def supervised(parts: Sequence[Part], tell: Tell) -> AsyncIterator[Supervisor]:
    """Keep `parts` running for the block's duration, and stop them after it, however it ends.

    Raises PartFailed when a part cannot be kept running; the block is cancelled then.
    """
    supervisor = Supervisor(parts, tell)
    try:
        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(supervisor.keep(part)) for part in parts]
            yield supervisor
            for keeper in keepers:
                keeper.cancel()
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        await _shielded(supervisor)


async def _shielded(supervisor: Supervisor) -> None:
    """Stop all parts; a second interrupt while that goes on kills what is left."""
    stopping = asyncio.create_task(supervisor.stop())
    while not stopping.done():
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            supervisor.kill()


async def _end_of(running: subprocess.Popen[bytes]) -> int:
    while (code := running.poll()) is None:  # noqa: ASYNC110 - a process is asked, not told
        await asyncio.sleep(_WATCH_S)
    return code
