"""The load generator as a process: jobs in, records out, several at a time on one clock."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from apps.capacity.errors import LoadTestError, TargetDown
from apps.capacity.failures.engines import Engine
from apps.capacity.load.measures import Figures, Record
from apps.capacity.load.recording import read_records
from apps.capacity.load.types import KEY_VARIABLE, Event, Job, Target

_TIMES = ("intended_s", "begun_s", "sent_s", "first_s", "last_s", "end_s")


@dataclass(frozen=True)
class Driven:
    """What came of one job; times in seconds since the earliest of its fellows began."""

    figures: Figures
    records: tuple[Record, ...]


def target_of(running: Engine) -> Target:
    return Target(kind="openai", url=f"{running.url}/v1", metrics_url=f"{running.url}/metrics")


def drive(running: Engine, *jobs: tuple[float, Job]) -> list[Driven]:
    """Run `jobs`, each (seconds to wait before it is started, job), at the same time.

    Raises TargetDown or another LoadTestError where the generator says that it cannot.
    """
    processes: list[subprocess.Popen[bytes]] = []
    with TemporaryDirectory() as folder, ThreadPoolExecutor(len(jobs)) as threads:
        try:
            runs = [
                threads.submit(_run, running.key, job, Path(folder), wait_s, processes)
                for wait_s, job in jobs
            ]
            done = [run.result() for run in runs]
        finally:
            for process in processes:
                if process.poll() is None:
                    process.terminate()
    first = min(began for began, _ in done)
    return [Driven(each.figures, _shifted(each.records, began - first)) for began, each in done]


def _run(
    key: str, job: Job, folder: Path, wait_s: float, processes: list[subprocess.Popen[bytes]]
) -> tuple[float, Driven]:
    """When the sending began, by this process's monotonic clock, and what came of it."""
    time.sleep(wait_s)
    process = subprocess.Popen(  # noqa: S603 - this interpreter and a folder of ours
        [sys.executable, "-m", "apps.capacity.load", "--records", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, KEY_VARIABLE: key},
        start_new_session=True,
    )
    processes.append(process)
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("started with pipes")
    process.stdin.write(job.model_dump_json().encode() + b"\n")
    process.stdin.close()
    began: list[float] = []
    last: Event | None = None
    for line in process.stdout:
        now, last = time.monotonic(), Event.model_validate_json(line)
        if last.event == "progress" and not last.progress.get("warming_up"):
            began.append(now - float(last.progress["elapsed_s"]))
    process.wait()
    return min(began, default=time.monotonic()), _outcome(last)


def _outcome(event: Event | None) -> Driven:
    if event is None:
        raise TargetDown("The load generator ended without a word.")
    if event.event != "done":
        raise LoadTestError(event.message)
    figures = Figures.model_validate(event.figures)
    return Driven(figures, tuple(read_records(Path(event.records).read_bytes())))


def _shifted(records: Sequence[Record], by_s: float) -> tuple[Record, ...]:
    return tuple(_moved(each, by_s) for each in records)


def _moved(record: Record, by_s: float) -> Record:
    times = {name: getattr(record, name) for name in _TIMES}
    moved = {name: round(at + by_s, 6) for name, at in times.items() if at is not None}
    pieces = tuple(round(at + by_s, 6) for at in record.pieces_s)
    return record.model_copy(update={**moved, "pieces_s": pieces})
