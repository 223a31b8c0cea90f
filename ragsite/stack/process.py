"""Child processes that cannot outlive us."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


class PartFailed(RuntimeError):
    """A part of the stack did not start. The message names its log."""


def start(
    command: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, its output appended to `log`.

    The kernel sends `death_signal` when the parent dies, however it dies: a killed supervisor
    leaves no stray. A session of its own keeps a terminal's Ctrl-C with the supervisor.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def die_with_parent() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, death_signal)

    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - commands are the stack's own
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env) if env is not None else None,
            user=user,
            group=user,
            extra_groups=[] if user else None,
            start_new_session=True,
            # Safe here: the parent is single-threaded when it starts parts.
            preexec_fn=die_with_parent,  # noqa: PLW1509
        )


def wait_until(
    ready: Callable[[], bool],
    process: subprocess.Popen[bytes],
    *,
    name: str,
    log: Path,
    timeout_s: float = 60.0,
) -> None:
    """Return when `ready()`; raise PartFailed when `process` ends or `timeout_s` passes first."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        if process.poll() is not None:
            raise PartFailed(f"{name} stopped while starting (exit {process.returncode}); see {log}")
        if time.monotonic() > deadline:
            raise PartFailed(f"{name} was not ready within {timeout_s:.0f} s; see {log}")
        time.sleep(0.05)


def stop(process: subprocess.Popen[bytes], sig: signal.Signals, *, grace_s: float = 10.0) -> None:
    """Ask `process` to end with `sig`; kill its whole group when it does not within `grace_s`."""
    if process.poll() is None:
        process.send_signal(sig)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:
        pass
    process.wait()


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
