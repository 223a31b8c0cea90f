"""Small parts for the supervisor: a line of Python each, in place of a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from ragsite.stack.part import Part

FOREVER = "import time; time.sleep(600)"
# What the environment names for these tests, and a stack of its own must not see.
_NAMED = ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "TEI_URL", "OPENAI_URL", "MEDIA_ROOT")


def fake(name: str, folder: Path, code: str = FOREVER, **more: Any) -> Part:
    """A part that is ready as soon as it runs, unless told otherwise."""
    ready: Callable[[], bool] = more.pop("ready", lambda: True)
    return Part(
        name=name,
        command=[sys.executable, "-c", code],
        log=folder / f"{name}.log",
        ready=ready,
        **more,
    )


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment, without the servers that it names."""
    environment = {name: value for name, value in os.environ.items() if name not in _NAMED}
    return {**environment, **more}


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has reaped has."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
