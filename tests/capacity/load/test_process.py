"""The generator as it is started: a process, a Job in, Events out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.capacity.load.measures import Figures
from apps.capacity.load.recording import read_records
from apps.capacity.load.types import KEY_VARIABLE, Event, Job, Target
from tests.capacity.load.jobs import job
from tests.contract.tgi import Behaviour, TgiDouble

NULL = Target(kind="null")
COMMAND = (sys.executable, "-m", "apps.capacity.load")
ROOT = Path(__file__).parents[3]


def lines_of(out: bytes) -> list[Event]:
    return [Event.model_validate_json(line) for line in out.splitlines()]


def generate(line: bytes, *options: str, key: str = "") -> list[Event]:
    """All events of one job."""
    done = subprocess.run(
        (*COMMAND, *options),
        input=line + b"\n",
        capture_output=True,
        timeout=60,
        check=True,
        cwd=ROOT,
        env={**os.environ, KEY_VARIABLE: key},
    )
    assert done.stderr == b""
    return lines_of(done.stdout)


@contextmanager
def generating(wanted: Job) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, start_new_session=True
    )
    with process:
        assert process.stdin is not None
        process.stdin.write(wanted.model_dump_json().encode() + b"\n")
        process.stdin.flush()
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_the_self_test_tells_of_the_generator_alone(tmp_path: Path) -> None:
    wanted = job("poisson", 40, duration_s=1.5, tokens=8, target=NULL)
    *progress, done = generate(wanted.model_dump_json().encode(), "--records", str(tmp_path))
    assert {each.event for each in progress} == {"progress"}
    assert done.event == "done"
    figures = Figures.model_validate(done.figures)
    assert figures.complete == figures.requests > 30
    assert figures.output_tokens == 8 * figures.requests
    file = Path(done.records)
    assert file.parent == tmp_path
    records = list(read_records(file.read_bytes()))
    assert len(records) == figures.requests
    assert {len(each.pieces_s) for each in records} == {8}


@pytest.mark.slow
def test_tgi_is_read_with_its_quirks() -> None:
    """Errors inside a 200 are failures; `stop_sequence` is an end; the key is sent."""
    tokens = ("a", "b", "c")
    with TgiDouble(api_key="k") as server:
        wanted = job(
            "constant", 20, duration_s=1, tokens=3, target=Target(kind="tgi", url=server.url)
        )
        server.script(*[Behaviour(tokens=tokens, finish="stop_sequence")] * 2)
        server.script(*[Behaviour(tokens=tokens, overloaded=True)] * 5)
        server.script(*[Behaviour(tokens=tokens, failure="error", fail_after=1)] * 3)
        server.script(*[Behaviour(tokens=tokens, failure="reset", fail_after=2)] * 2)
        server.script(*[Behaviour(tokens=tokens, cut_bytes=7, finish="stop_sequence")] * 10)
        *_, done = generate(wanted.model_dump_json().encode(), key="k")
    figures = Figures.model_validate(done.figures)
    assert (figures.requests, figures.complete, figures.failed) == (20, 10, 10)
    assert figures.errors["in_band_overloaded"] == 5
    assert figures.errors["reset"] == 2
    assert figures.tokens_reported == 10
    assert figures.output_tokens == 30


@pytest.mark.slow
def test_a_wrong_key_is_told() -> None:
    with TgiDouble(api_key="k") as server:
        wanted = job(target=Target(kind="tgi", url=server.url))
        *_, failed = generate(wanted.model_dump_json().encode(), key="wrong")
    assert (failed.event, failed.code) == ("failed", "target_down")
    assert "http_401" in failed.message
    assert "wrong" not in failed.message


@pytest.mark.parametrize("line", [b"", b"{}", b"not JSON", b"\xff", b"[" * 100_000])
@pytest.mark.slow
def test_what_is_no_job_has_failed(line: bytes) -> None:
    (failed,) = generate(line)
    assert (failed.event, failed.code) == ("failed", "workload_invalid")


@pytest.mark.slow
def test_a_signal_stops_it_within_a_second() -> None:
    wanted = job("closed", 4, duration_s=60, tokens=1000, target=Target(kind="null", pace_ms=50))
    with generating(wanted) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if Event.model_validate_json(line).progress.get("in_flight") == 4:
                break
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        (*_, done) = lines_of(process.stdout.read())
        assert process.wait(5) == 0
    figures = Figures.model_validate(done.figures)
    assert figures.stopped
    assert figures.errors == {"stopped": 4}
    assert time.monotonic() - began < 5  # bounded, not timed: the machine may be busy


@pytest.mark.slow
def test_nobody_who_reads_ends_it() -> None:
    wanted = job("closed", 1, duration_s=60, target=NULL)
    with generating(wanted) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(10) == 1


def test_django_and_httpx_are_not_loaded() -> None:
    """They would take time of a process that measures time."""
    code = "import apps.capacity.load.__main__, sys; print({'django', 'httpx'} & {*sys.modules})"
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, check=True, cwd=ROOT, timeout=60
    )
    assert done.stdout == b"set()\n"
