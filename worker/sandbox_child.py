"""The inside of the sandbox: limits first, then the function, then one reply.

Run as a script by `worker.sandbox`; never imported by the site. It imports nothing of Django.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
# Known to worker.sandbox.
_EXIT_MEMORY, _EXIT_OUTPUT, _EXIT_CRASH = 70, 71, 72


def _leave_the_network(libc: ctypes.CDLL) -> None:
    """Into an empty network namespace; where that is not allowed, say so and go on."""
    if libc.unshare(_CLONE_NEWNET) != 0 and libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        print("sandbox: no network namespace allowed here", file=sys.stderr)  # noqa: T201


def _close_in(limits: dict[str, Any]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _leave_the_network(libc)
    libc.prctl(_PR_SET_DUMPABLE, 0)
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


def main(reply_fd: int, limits: dict[str, Any]) -> int:
    _close_in(limits)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    import msgpack  # type: ignore[import-untyped]

    try:
        request = msgpack.unpackb(sys.stdin.buffer.read())
        answer = msgpack.packb(_call(request))
        with os.fdopen(reply_fd, "wb") as reply:
            reply.write(answer)
    except MemoryError:
        return _EXIT_MEMORY
    except OSError as exc:
        return _EXIT_OUTPUT if exc.errno == 27 else _EXIT_CRASH  # EFBIG
    except Exception as exc:
        # The kind of error only: its words may quote the document.
        print(f"sandbox: {type(exc).__name__}", file=sys.stderr)  # noqa: T201
        return _EXIT_CRASH
    return 0


if __name__ == "__main__":
    status = main(int(sys.argv[1]), json.loads(sys.argv[2]))
    # At once: no destructor of a parser's library has a say.
    os._exit(status)
