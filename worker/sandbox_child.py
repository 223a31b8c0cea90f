"""The inside of the sandbox: limits first, then the function, then its reply.

Runs in a fork of the zygote (`worker.zygote_main`); never imported by the site. It imports nothing
of Django.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import msgpack  # type: ignore[import-untyped]

from worker import landlock, seccomp

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CAPABILITY_VERSION_3 = 0x20080522
# Known to worker.sandbox.
EXIT_MEMORY, EXIT_OUTPUT, EXIT_CRASH = 70, 71, 72
_libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> None:
    """Have the kernel end this process with `parent`; end it now if that has happened already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_CRASH)


def hide() -> None:
    """From other processes of this user: none may trace this one or read its memory."""
    _libc.prctl(_PR_SET_DUMPABLE, 0)


def _leave_the_network() -> None:
    """Into an empty network namespace; where that is not allowed, say so and go on."""
    if _libc.unshare(_CLONE_NEWNET) != 0 and _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        _say("no network namespace allowed here")


def _drop_capabilities() -> None:
    """All: those of root, or of the namespace's first user. They would lift the limits again."""
    _libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24))


def _close_in(limits: dict[str, Any], zygote: int, reads: list[str]) -> None:
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _leave_the_network()
    _drop_capabilities()
    # After these: a change of credentials undoes both.
    die_with(zygote)
    hide()
    if not landlock.confine(scratch=os.getcwd(), reads=reads):
        _say("no Landlock allowed here")
    # Two threads' worth; wall time is the parent's to keep.
    cpu_s = int(limits["cpu_s"] or limits["wall_s"] * 2) + 1
    for kind, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, limits["output_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (int(value), int(value)))
    # Last: it refuses what the others are made of.
    if not seccomp.confine(children=limits["children"]):
        _say("no system call filter allowed here")


def _say(words: str) -> None:
    print(f"sandbox: {words}", file=sys.stderr)  # noqa: T201


def _function(name: str) -> Any:
    module_name, _, attribute = name.partition(":")
    return getattr(__import__(module_name, fromlist=[attribute]), attribute)


def _call(request: dict[str, Any]) -> dict[str, Any]:
    with _refusing() as answer:
        answer["result"] = _function(request["function"])(**request["payload"])
    return answer


@contextmanager
def _refusing() -> Iterator[dict[str, Any]]:
    """An answer to fill; an error that has a `code` becomes a refusal in it."""
    answer: dict[str, Any] = {}
    try:
        yield answer
    except MemoryError:
        raise
    except Exception as exc:
        code = getattr(exc, "code", None)
        if not isinstance(code, str):
            raise
        answer.update(refused=code, message=str(exc))


def _stream(request: dict[str, Any], reply: IO[bytes]) -> None:
    """Items as they are made, each behind its length; writing waits until it is taken."""
    with _refusing() as last:
        for item in _function(request["function"])(**request["payload"]):
            _write(reply, {"item": item})
        last["end"] = True
    _write(reply, last)


def _write(reply: IO[bytes], answer: dict[str, Any]) -> None:
    data = msgpack.packb(answer)
    reply.write(len(data).to_bytes(4, "big") + data)
    reply.flush()


def main(reply_fd: int, order: dict[str, Any], *, zygote: int) -> int:
    """The exit status. The request is on descriptor 0, and not looked at before the limits."""
    _close_in(order["limits"], zygote, order["reads"])
    try:
        with os.fdopen(0, "rb", closefd=False) as source:
            request = msgpack.unpackb(source.read())
        with os.fdopen(reply_fd, "wb") as reply:
            if order["stream"]:
                _stream(request, reply)
            else:
                reply.write(msgpack.packb(_call(request)))
    except MemoryError:
        return EXIT_MEMORY
    except OSError as exc:
        return EXIT_OUTPUT if exc.errno == 27 else EXIT_CRASH  # EFBIG
    except Exception as exc:
        # The kind of error only: its words may quote the document.
        _say(type(exc).__name__)
        return EXIT_CRASH
    return 0
