"""Load tests that are measured by a stand-in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.capacity.load.types import Bounds, Lengths, Promises, Target, Workload
from apps.capacity.loadtests import generating, measuring, working
from apps.capacity.loadtests.plan import Plan
from apps.capacity.loadtests.services import start_test
from apps.capacity.models import LoadTest
from tests.capacity.loadtests import generator

WORKLOAD = Workload(kind="synthetic", prompt=Lengths(mean=100), output=Lengths(mean=20))
NULL = Target(kind="null")


class StandIn:
    """The generator's process in these tests."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._patch = folder, monkeypatch
        self.behave("well")

    def behave(self, name: str) -> None:
        """As `tests.capacity.loadtests.generator` does under this name."""
        command = (sys.executable, "-S", generator.__file__, str(self._folder), name)
        self._patch.setattr(generating, "COMMAND", command)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """What it was started with: {"job", "env", "pid"} each."""
        path = self._folder / "jobs.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setattr(working, "PAUSE_S", 0.0)
    monkeypatch.setattr(measuring, "TELL_S", 0.1)
    return StandIn(tmp_path, monkeypatch)


def a_plan(*loads: float, **more: Any) -> Plan:
    values: dict[str, Any] = {
        "mode": "sweep",
        "loads": loads or (1.0, 2.0),
        "repeats": 2,
        "promises": Promises(ttft_ms=500),
        "bounds": Bounds(duration_s=1.0, requests=40, warmup_requests=0, drain_s=1.0),
        "self_test": False,
        "seed": 7,
        **more,
    }
    return Plan(**values)


def begin(*loads: float, held: bool = False, **more: Any) -> LoadTest:
    """A test of the null target, which needs no server."""
    given: dict[str, Any] = {
        "name": "A test",
        "target": NULL,
        "workload": WORKLOAD,
        "conditions": {},
        "user": None,
    }
    for name in ("name", "target", "workload", "conditions", "user", "key", "rerun_of"):
        if name in more:
            given[name] = more.pop(name)
    return start_test(plan=a_plan(*loads, **more), held=held, **given)


def work_off(test: LoadTest, *, turns: int = 60) -> LoadTest:
    """As a worker does, message after message."""
    for _ in range(turns):
        working.run_next()
        test.refresh_from_db()
        if test.state not in ("waiting", "running"):
            return test
    raise AssertionError(f"not ended after {turns} turns: {test.state} {test.error_code}")


Begin = Callable[..., LoadTest]
