"""Child processes that cannot outlive us."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

_PR_SET_PDEATHSIG = 1
_TAIL_BYTES = 8192


class PartFailed(RuntimeError):
    """A part of the stack did not start, or kept crashing. The message names its log."""


def start(
    command: Sequence[str],
    *,
    log: Path | None,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, its output appended to `log` (None: to ours).

    The kernel sends `death_signal` when the thread that called this ends, however it ends: a
    killed supervisor leaves no stray. So call it from the main thread. A session of its own keeps
    a terminal's Ctrl-C with the supervisor.
    """
    with contextlib.ExitStack() as files:
        output = files.enter_context(_open_log(log)) if log is not None else None
        return subprocess.Popen(  # noqa: S603 - commands are the stack's own
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output is not None else None,
            env=dict(env) if env is not None else None,
            user=user,
            group=user,
            extra_groups=[] if user else None,
            start_new_session=True,
            # Runs after the change of user, which would clear the signal.
            preexec_fn=_die_with_parent(death_signal),
        )


def _open_log(log: Path) -> BinaryIO:
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("ab")


def _die_with_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    """What a new child does first; Linux only, elsewhere a killed supervisor leaves its parts."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def ask_the_kernel() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return ask_the_kernel


def stop(process: subprocess.Popen[bytes], sig: signal.Signals, *, grace_s: float = 10.0) -> None:
    """Ask `process` to end with `sig`; then kill what is left of its group after `grace_s`."""
    if process.poll() is None:
        process.send_signal(sig)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    kill_group(process)
    process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill `process` and the children it left in its group, at once."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def exit_words(code: int) -> str:
    """An exit status in words: `exit 1`, or `killed by SIGSEGV`."""
    if code >= 0:
        return f"exit {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, indented; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_answers(port: int) -> bool:
    """Whether something accepts connections on the loopback port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
