"""`python -m apps.capacity.load [--records FOLDER]`: a Job in, Events out; see the package."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import ValidationError

from apps.capacity.errors import CapacityError, TargetDown, WorkloadInvalid
from apps.capacity.load import timing
from apps.capacity.load.recording import write_records
from apps.capacity.load.running import MOST_IN_FLIGHT, Point
from apps.capacity.load.targets import Address, dialling
from apps.capacity.load.types import KEY_VARIABLE, Event, Job

JOB_BYTES_MAX = 64 * 1024 * 1024  # a trace of 100,000 rows takes 7 MB
_ORPHAN_S = 0.5
_NULL_START_S = 20.0


def main() -> None:
    """One point; exit status 0 whatever came of it: the last event tells."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=Path)
    folder: Path | None = parser.parse_args().records
    key = os.environ.pop(KEY_VARIABLE, "")
    _allow_files(4 * MOST_IN_FLIGHT)
    try:
        _emit(timing.run(_run(_job(), key, folder)))
    except CapacityError as exc:
        _emit(Event(event="failed", code=exc.code, message=str(exc)))


def _allow_files(wanted: int) -> None:
    """Each request under way holds a socket; 1,024 are usual, and more would be called failures."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _job() -> Job:
    line = sys.stdin.buffer.readline(JOB_BYTES_MAX)
    try:
        return Job.model_validate_json(line)
    except ValidationError as exc:
        fault = exc.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(step) for step in fault["loc"])
        raise WorkloadInvalid(f"The job cannot be read: {where}: {fault['msg']}"[:500]) from None


async def _run(job: Job, key: str, folder: Path | None) -> Event:
    async with _addressed(job) as url:
        address = Address.of(url)
        point = Point(job, dialling(address), address, key, tell=_tell)
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, point.stop)
        watching = asyncio.create_task(_stop_without_parent(point))
        # A collection of everything stops the loop for tens of milliseconds; what was loaded by
        # now stays, and what a point makes is freed by reference counts.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 50, 1000)
        try:
            figures = await point.run()
        finally:
            watching.cancel()
        file = _written(point, folder)
        return Event(event="done", figures=figures.model_dump(mode="json"), records=file)


def _written(point: Point, folder: Path | None) -> str:
    if folder is None:
        return ""
    path = folder / f"records-{uuid.uuid4().hex}.jsonl.gz"
    write_records(point.records, path)
    return str(path)


@asynccontextmanager
async def _addressed(job: Job) -> AsyncIterator[str]:
    """The target's address; of the self-test, that of a null server which lives as long."""
    if job.target.kind != "null":
        yield job.target.url
        return
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "apps.capacity.load.null_server", str(job.target.pace_ms)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # A Ctrl-C is for this process, which ends the server when it has done with it.
        start_new_session=True,
    )
    try:
        if server.stdout is None:
            raise TargetDown("The null server has no output.")
        async with asyncio.timeout(_NULL_START_S):
            port = await server.stdout.readline()
        yield f"http://127.0.0.1:{int(port)}/v1"
    except (TimeoutError, ValueError) as exc:
        raise TargetDown("The null server did not start.") from exc
    finally:
        if server.returncode is None:
            server.kill()
        await server.wait()


async def _stop_without_parent(point: Point) -> None:
    """Whoever started this has died without a signal: nobody waits for what would be measured."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(_ORPHAN_S)
    point.stop()


def _tell(progress: dict[str, float | bool]) -> None:
    _emit(Event(event="progress", progress=progress))


def _emit(event: Event) -> None:
    try:
        sys.stdout.write(event.model_dump_json(exclude_defaults=True) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(1)  # nobody reads any more: the connections end with the process


if __name__ == "__main__":
    main()
