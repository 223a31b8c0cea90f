"""Memory of each part: PSS, which shares out shared pages, so that parts can be added up."""

from __future__ import annotations

import re
from pathlib import Path

import psutil

from tests.bench.stand import Stand

MIB = 1024.0  # smaps counts in KiB


def pss_mib(stand: Stand, *names: str) -> dict[str, float]:
    """PSS of each part with its children, in MiB; of all parts where none is named."""
    return {
        name: sum(pss(process) for process in _family(running.pid))
        for name, running in stand.processes.items()
        if name in names or not names
    }


def pss(process: psutil.Process) -> float:
    """PSS of one process, in MiB."""
    try:
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # ended meanwhile
    found = re.search(r"^Pss:\s+(\d+)", rollup, re.M)
    return int(found[1]) / MIB if found else 0.0


def _family(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]
