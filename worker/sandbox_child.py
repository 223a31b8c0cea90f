"""The inside of the sandbox: limits first, then the function, then one reply.

Runs in a fork of the zygote (`worker.zygote_main`); never imported by the site. It imports nothing
of Django.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from typing import Any

import msgpack  # type: ignore[import-untyped]

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
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
        print("sandbox: no network namespace allowed here", file=sys.stderr)  # noqa: T201


def _close_in(limits: dict[str, Any], zygote: int) -> None:
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _leave_the_network()
    # After it: a change of credentials undoes both.
    die_with(zygote)
    hide()
    cpu_s = int(limits["wall_s"]) * 2 + 1  # two threads' worth; wall time is the parent's to keep
    for kind, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, limits["output_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (int(value), int(value)))


def _call(request: dict[str, Any]) -> dict[str, Any]:
    module_name, _, name = request["function"].partition(":")
    module = __import__(module_name, fromlist=[name])
    try:
        return {"result": getattr(module, name)(**request["payload"])}
    except MemoryError:
        raise
    except Exception as exc:
        code = getattr(exc, "code", None)
        if not isinstance(code, str):
            raise
        return {"refused": code, "message": str(exc)}


def main(reply_fd: int, limits: dict[str, Any], *, zygote: int) -> int:
    """The exit status. The request is on descriptor 0, and not looked at before the limits."""
    _close_in(limits, zygote)
    try:
        with os.fdopen(0, "rb", closefd=False) as source:
            request = msgpack.unpackb(source.read())
        answer = msgpack.packb(_call(request))
        with os.fdopen(reply_fd, "wb") as reply:
            reply.write(answer)
    except MemoryError:
        return EXIT_MEMORY
    except OSError as exc:
        return EXIT_OUTPUT if exc.errno == 27 else EXIT_CRASH  # EFBIG
    except Exception as exc:
        # The kind of error only: its words may quote the document.
        print(f"sandbox: {type(exc).__name__}", file=sys.stderr)  # noqa: T201
        return EXIT_CRASH
    return 0
