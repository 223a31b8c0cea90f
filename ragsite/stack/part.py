"""A part of the stack: one process, how to see that it is ready, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragsite.stack import process
from ragsite.stack.process import PartFailed

POLL_S = 0.05


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Part:
    """How one part is run. The callables may block; a supervisor calls them in a thread."""

    name: str
    command: Sequence[str]
    log: Path
    ready: Callable[[], bool]
    needs: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None  # None: ours
    user: str | None = None
    prepare: Callable[[], None] = _nothing  # before every start
    finish: Callable[[], None] = _nothing  # once it is ready, before others may use it
    stop_signal: signal.Signals = signal.SIGTERM
    # What the kernel sends when we are gone: nobody is left to wait for a slow end.
    death_signal: signal.Signals = signal.SIGKILL
    grace_s: float = 10.0
    timeout_s: float = 90.0
    one_shot: bool = False  # a step: ready once it has ended well

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the process; from the main thread (see `process.start`)."""
        return process.start(
            self.command,
            log=self.log,
            env=self.env,
            user=self.user,
            death_signal=self.death_signal,
        )

    def stop(self, running: subprocess.Popen[bytes]) -> None:
        """End `running` and kill what is left of its children; returns when `running` is gone."""
        process.stop(running, self.stop_signal, grace_s=self.grace_s)

    def came_up(self, running: subprocess.Popen[bytes], *, waited_s: float) -> bool:
        """One look: whether the part is ready.

        Raises PartFailed when the process has ended instead, or has had `timeout_s`.
        """
        code = running.poll()
        if self.one_shot and code == 0:
            return True
        if code is not None:
            raise PartFailed(f"{self.name} ended while starting ({process.exit_words(code)})")
        if not self.one_shot and self.ready():
            return True
        if waited_s > self.timeout_s:
            raise PartFailed(f"{self.name} was not ready within {self.timeout_s:.0f} s")
        return False

    def failure(self, reason: object) -> PartFailed:
        """The error to end with: why, and what the part said last."""
        return PartFailed(f"{reason}. The end of {self.log}:\n{process.tail(self.log)}")


def start_and_wait(part: Part) -> subprocess.Popen[bytes]:
    """Start `part` and return when it is ready; a part that fails is stopped first."""
    part.prepare()
    running = part.spawn()
    return wait_for(part, running)


def wait_for(part: Part, running: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Return when the started `part` is ready; a part that fails is stopped first."""
    started = time.monotonic()
    try:
        while not part.came_up(running, waited_s=time.monotonic() - started):
            time.sleep(POLL_S)
        part.finish()
    except PartFailed as exc:
        part.stop(running)
        raise part.failure(exc) from None
    except BaseException:
        part.stop(running)
        raise
    return running
