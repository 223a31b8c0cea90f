"""This machine, as far as it says what it is."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

_GIB = 1024**3


def describe_machine() -> dict[str, Any]:
    """{"cpu", "cores", "memory_bytes", "load_average"}: cores that this process may use."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_average": round(os.getloadavg()[0], 2),  # processes, over the last minute
    }


def machine_words(machine: dict[str, Any]) -> str:
    """In words, for what figures hold for."""
    memory = round(machine["memory_bytes"] / _GIB)
    cores = machine["cores"]
    return f"{machine['cpu']}, {cores} core{'s' if cores != 1 else ''}, {memory} GiB"


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n"):
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()
