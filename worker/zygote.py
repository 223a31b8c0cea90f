"""The parent's side of the zygote: started at the first call, and again when it has died.

An order is one message on the channel: a header, and the descriptors of request, stderr, reply
and of a socket for this call alone. On that the zygote says the process id, then the exit status.
Hanging up on it ends the call: the zygote kills the process group.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

_MAIN = Path(__file__).with_name("zygote_main.py")
_START_S = 60.0
_SEND_S = 10.0
# For a killed process to be gone.
_END_S = 10.0


class ZygoteLost(Exception):
    """The zygote did not start, or died before the call had ended."""


class _Zygote:
    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(_START_S)
        # The kernel's "parent has died" is about the thread that forked: this one lives as long
        # as the zygote, whichever thread makes the first call.
        keeper = threading.Thread(target=self._keep, args=(theirs,), name="zygote", daemon=True)
        keeper.start()
        try:
            hello = self.channel.recv(4096)
        except OSError as exc:
            self.end()
            raise ZygoteLost("the zygote did not start") from exc
        if hello != b"ready":
            self.end()
            raise ZygoteLost(f"the zygote did not start: {hello.decode(errors='replace')}")
        self.channel.settimeout(_SEND_S)

    def _keep(self, theirs: socket.socket) -> None:
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - the child is ours
                # -I: no environment, no current folder, no user site.
                [sys.executable, "-I", str(_MAIN), str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd="/",
                env={
                    "PATH": "/usr/bin:/bin",
                    "LANG": "C.UTF-8",
                    # Each arena reserves 64 MiB of the address space that is limited.
                    "MALLOC_ARENA_MAX": "2",
                    "TOKENIZERS_PARALLELISM": "false",
                },
                start_new_session=True,
            )
        process.wait()

    def end(self) -> None:
        with suppress(OSError):
            self.channel.shutdown(socket.SHUT_RDWR)
        self.channel.close()


class Call:
    """One call under way. Raises ZygoteLost where the zygote died under it."""

    def __init__(self, order: dict[str, Any], fds: Sequence[int]) -> None:
        """`fds`: request, stderr, reply."""
        self.pid = 0
        self.status: int | None = None
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._zygote = _send(json.dumps(order).encode(), [*fds, theirs.fileno()])
            except ZygoteLost:
                self._socket.close()
                raise

    def wait(self, timeout_s: float) -> int | None:
        """The exit status (negative: signal), or None after `timeout_s`."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while self.status is None and poll.poll(timeout_s * 1000):
            self._hear()
        return self.status

    def end(self) -> None:
        """Have the process group killed if it is not gone, and wait until it is."""
        with self._socket, suppress(OSError, ZygoteLost):
            self._socket.shutdown(socket.SHUT_WR)
            if self.wait(_END_S) is None:
                logger.error("the zygote is stuck: a new one is started")
                self._lose()

    def _hear(self) -> None:
        try:
            words = self._socket.recv(256)
        except OSError:
            words = b""
        if not words:
            self._lose()
            raise ZygoteLost("the zygote died")
        said: dict[str, int] = json.loads(words)
        self.pid = said.get("pid", self.pid)
        self.status = said.get("status")

    def _lose(self) -> None:
        """The fork dies with its zygote; its own children only by this."""
        _discard(self._zygote)
        self._socket.close()
        if self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


_lock = threading.Lock()
_current: _Zygote | None = None


def _send(header: bytes, fds: Sequence[int]) -> _Zygote:
    global _current
    with _lock:
        try:
            if _current is None:
                _current = _Zygote()
            socket.send_fds(_current.channel, [header], fds)
        except OSError as exc:
            _drop()
            raise ZygoteLost("the zygote takes no order") from exc
        return _current


def _drop() -> None:
    global _current
    if _current is not None:
        _current.end()
        _current = None


def _discard(zygote: _Zygote) -> None:
    with _lock:
        if _current is zygote:
            _drop()


def _forget() -> None:
    """In a fork of this process: the zygote is the parent's, whose end it waits for."""
    global _current, _lock
    _lock = threading.Lock()  # another thread may have held it
    if _current is not None:
        _current.channel.close()
        _current = None


os.register_at_fork(after_in_child=_forget)
