"""Functions that a sandbox has to survive. Named by tests, run inside it."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path


class Declined(Exception):
    code = "declined"


def echo(value: object) -> object:
    return value


def environment() -> dict[str, str]:
    return dict(os.environ)


def modules() -> list[str]:
    return sorted(sys.modules)


def decline() -> None:
    raise Declined("not this one")


def hang() -> None:
    time.sleep(600)


def spin() -> None:
    while True:
        pass


def hang_with_child() -> None:
    subprocess.Popen(["/bin/sleep", "613"])
    time.sleep(600)


def eat_memory() -> int:
    return len(bytearray(4 << 30))


def die() -> None:
    ctypes.string_at(0)


def leave() -> None:
    os._exit(0)


def flood() -> bytes:
    return b"x" * (8 << 20)


def leak_words() -> None:
    raise RuntimeError("the secret of the document")


def reach(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def process() -> dict[str, object]:
    return {
        "pid": os.getpid(),
        "zygote": os.getppid(),
        "session": os.getsid(0),
        "descriptors": sorted(int(fd) for fd in os.listdir("/proc/self/fd")),
        "memory": resource.getrlimit(resource.RLIMIT_AS),
        "no_new_privileges": "NoNewPrivs:\t1" in Path("/proc/self/status").read_text(),
    }


def allocate(mib: int) -> int:
    return len(bytearray(mib << 20))


def leave_a_mark() -> bool:
    """Whether an earlier call has left one."""
    found = hasattr(os, "mark")
    os.mark = True  # type: ignore[attr-defined]
    return found


def nap(path: str) -> int:
    """Sleep when called for the first time, with this process and its zygote told in `path`."""
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.write(f"{os.getpid()} {os.getppid()}")
        time.sleep(600)
    return os.getppid()


def kill_everyone_it_started_from() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def loaded_tokenizers() -> int:
    from apps.documents.tokens import load_counter

    return load_counter.cache_info().currsize


def stop_the_zygote_and_end(path: str) -> None:
    Path(path).write_text(f"{os.getppid()} ")
    os.kill(os.getppid(), signal.SIGSTOP)


def count_to(end: int, *, then: str = "") -> Iterator[int]:
    """Items of a stream, and how it goes wrong after the last."""
    yield from range(end)
    if then == "decline":
        decline()
    elif then == "die":
        die()
    elif then == "hang":
        hang()
    elif then == "eat_memory":
        eat_memory()


def large_item(size: int) -> Iterator[bytes]:
    yield b"x" * size
