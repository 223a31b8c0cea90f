"""The zygote: a clean process that has imported the parsers, and forks once for every call.

Run as a script by `worker.zygote`. It reads its parent's orders and nothing else: the payload of
a call is read by the fork, after its limits are set. It has one thread, so forking is safe: the
libraries start theirs when first used, which is in a fork.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

_PRELOADED = (
    "apps.documents.parsing.parse",
    "apps.documents.chunking",
    "apps.documents.rendering",
    "semchunk.semchunk",
    "tokenizers",
)
_FDS = 4  # request, stderr, reply, call
_FDS_MAX = 1 << 20
_EXIT_CRASH = 72  # as in sandbox_child


@dataclass(frozen=True)
class _Run:
    """A fork at work. It stays a zombie until it is waited for here: its id cannot be reused."""

    pid: int
    descriptor: int  # pidfd: readable when it has ended
    call: socket.socket  # end of file: the caller has hung up

    def kill(self) -> None:
        # The group, and the process itself in case it has not come to make its group yet.
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)


class _Zygote:
    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.selector = selectors.PollSelector()  # no epoll: it would be shared with the forks
        self.selector.register(channel, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until the parent closes the channel; forks still at work die with this process."""
        while True:
            for key, _ in self.selector.select():
                if self.selector.get_map().get(key.fd) is not key:
                    continue  # its run has been finished in this very round
                if key.fileobj is self.channel:
                    if not self._accept():
                        return
                elif key.fd == key.data.descriptor:
                    self._finish(key.data)
                else:
                    self.selector.unregister(key.fileobj)
                    key.data.kill()

    def _accept(self) -> bool:
        header, fds, _, _ = socket.recv_fds(self.channel, 1 << 16, _FDS)
        if len(fds) == _FDS:
            order = json.loads(header)
            _preload(order["preload"])
            self._fork(order, fds)
        for fd in fds[:3]:
            os.close(fd)
        return bool(header)

    def _fork(self, order: dict[str, Any], fds: list[int]) -> None:
        call = socket.socket(fileno=fds[3])
        zygote = os.getpid()
        try:
            pid = os.fork()
        except OSError:  # no process or no memory to be had: this call fails, the others go on
            with call:
                _tell(call, status=_EXIT_CRASH)
            return
        if pid == 0:
            _run(order, fds, zygote)
        run = _Run(pid, os.pidfd_open(pid), call)
        _tell(call, pid=pid)
        self.selector.register(run.descriptor, selectors.EVENT_READ, run)
        self.selector.register(call, selectors.EVENT_READ, run)

    def _finish(self, run: _Run) -> None:
        run.kill()  # what it left behind
        _, status = os.waitpid(run.pid, 0)
        self.selector.unregister(run.descriptor)
        with suppress(KeyError):
            self.selector.unregister(run.call)
        os.close(run.descriptor)
        _tell(run.call, status=os.waitstatus_to_exitcode(status))
        run.call.close()


def _preload(wanted: tuple[str, str] | None) -> None:
    """The function caches its result, so that forks find it done."""
    if wanted is None:
        return
    module, _, name = wanted[0].partition(":")
    with suppress(Exception):  # the fork meets the same, and reports it
        getattr(importlib.import_module(module), name)(wanted[1])


def _tell(call: socket.socket, **words: int) -> None:
    with suppress(OSError):  # nobody there: the parent is gone, or going
        call.send(json.dumps(words).encode())


def _run(order: dict[str, Any], fds: list[int], zygote: int) -> NoReturn:
    """In the fork: nothing of the zygote's stays open, and no way leads back to its loop."""
    from worker import sandbox_child

    status = _EXIT_CRASH
    try:
        os.setsid()
        # Numbers are given lowest first, so none of these is overwritten before it is copied.
        for fd, place in zip(fds, (0, 2, 3), strict=False):
            os.dup2(fd, place)
        os.closerange(4, _FDS_MAX)
        os.chdir(order["scratch"])
        os.environ.update(HOME=order["scratch"], TMPDIR=order["scratch"])
        tempfile.tempdir = None
        status = sandbox_child.main(3, order, zygote=zygote)
    finally:
        # At once: no destructor of a parser's library has a say.
        os._exit(status)


def _prepare(parent: int) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from worker.sandbox_child import die_with, hide

    die_with(parent)
    hide()
    for name in _PRELOADED:
        importlib.import_module(name)
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"{threads} threads after the imports: forking is not safe")
    # What is there now is never collected, so forks do not copy its pages by counting it.
    gc.collect()
    gc.freeze()


def main(channel: socket.socket, parent: int) -> None:
    try:
        _prepare(parent)
    except Exception as exc:
        channel.send(repr(exc).encode()[:4096])
        return
    channel.send(b"ready")
    _Zygote(channel).serve()


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    os._exit(0)
