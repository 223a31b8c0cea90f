"""Functions that a sandbox has to survive. Named by tests, run inside it."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import time


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
