"""The generator itself, at a server that answers at once: started, kept, stopped, orphaned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apps.capacity.load.recording import read_records
from apps.capacity.load.types import Bounds
from apps.capacity.loadtests.working import run_here
from apps.capacity.models import LoadPoint
from tests.capacity.loadtests.conftest import begin

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

_PARENT = """
import os, sys
from pathlib import Path
import django
django.setup()
from apps.capacity.load.types import Arrivals, Bounds, Job, Target
from apps.capacity.loadtests.generating import Generator
from tests.capacity.loadtests.conftest import WORKLOAD
job = Job(
    target=Target(kind="null"),
    workload=WORKLOAD,
    arrivals=Arrivals(kind="constant", load=5.0),
    bounds=Bounds(duration_s=60.0, requests=1000, warmup_requests=0),
)
with Generator(job, folder=Path(sys.argv[1])) as generator:
    for event in generator.events():
        if event is not None:
            print(generator._process.pid, flush=True)
"""


def test_a_test_of_the_real_generator_is_kept_with_its_records() -> None:
    bounds = Bounds(duration_s=1.5, requests=30, warmup_requests=1, drain_s=5.0)
    test = run_here(begin(10.0, repeats=1, held=True, bounds=bounds, self_test=True))
    assert (test.state, test.error_code, test.result["points"]) == ("done", "", 1)
    assert test.result["self_test"]["failed"] == 0
    point = LoadPoint.objects.get(test=test, purpose="sweep")
    figures = point.figures
    assert figures["requests"] == figures["complete"] > 0
    assert len(list(read_records(bytes(point.records)))) == figures["requests"]


def test_a_stop_takes_effect_within_two_seconds() -> None:
    bounds = Bounds(duration_s=60.0, requests=1000, warmup_requests=0)
    asked: list[float] = []

    def stop(progress: dict[str, object]) -> bool:
        if progress.get("sent") and not progress["warming_up"]:
            asked.append(time.monotonic())
        return bool(asked)

    test = run_here(begin(5.0, held=True, bounds=bounds), on_progress=stop)
    assert test.state == "cancelled"
    # 2 s are promised; as long again for a machine that does other things too.
    assert time.monotonic() - asked[0] < 4.0
    assert LoadPoint.objects.get(test=test).figures["stopped"]


def test_a_generator_dies_with_its_parent(tmp_path: Path) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "ragsite.settings"}
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert parent.stdout is not None
    generator = int(parent.stdout.readline())
    assert _is_alive(generator)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 10
    while _is_alive(generator) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _is_alive(generator)


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"  # a zombie only waits for whoever reaps
