"""One stack over one state directory, and what is left of one that was killed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ragsite.stack.state import StateDir, StateInUse


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "var")


def test_a_second_stack_is_refused_and_told_who_holds_it(state: StateDir) -> None:
    with state.hold():
        code = (
            "import sys; from pathlib import Path; from ragsite.stack.state import *\n"
            "try:\n    StateDir(Path(sys.argv[1])).hold().__enter__()\n"
            "except StateInUse as exc: print(exc)"
        )
        said = subprocess.check_output([sys.executable, "-c", code, str(state.root)], text=True)
    assert f"in use by process {os.getpid()}" in said


def test_in_one_process_too(state: StateDir) -> None:
    with state.hold(), pytest.raises(StateInUse), state.hold():
        pass


def test_the_running_stack_is_reached_by_what_it_announced(state: StateDir) -> None:
    with state.hold():
        state.announce({"REDIS_URL": "redis://somewhere"})
        assert state.running_environment() == {"REDIS_URL": "redis://somewhere"}


def test_nobody_else_can_read_the_keys(state: StateDir) -> None:
    with state.hold():
        state.announce({"TEI_API_KEY": "secret"})
        assert stat.S_IMODE(state.running_file.stat().st_mode) == 0o600


def test_a_stack_that_has_ended_is_not_running(state: StateDir) -> None:
    with state.hold():
        state.announce({})
    assert state.running_environment() is None
    assert not state.running_file.exists()


def test_the_file_of_a_killed_stack_is_not_taken_for_a_running_one(state: StateDir) -> None:
    with state.hold():
        state.announce({"REDIS_URL": "redis://gone"})
        left = state.running_file.read_text()
    state.running_file.write_text(left)
    assert state.running_environment() is None


def test_a_stack_that_is_still_starting_is_not_reached(state: StateDir) -> None:
    with state.hold():
        assert state.held()
        assert state.running_environment() is None


def test_a_directory_never_used_is_free(state: StateDir) -> None:
    assert not state.held()


def test_long_logs_are_put_aside_and_short_ones_kept(
    state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragsite.stack.state.LOG_LIMIT_BYTES", 10)
    long, short = state.log("long"), state.log("short")
    long.parent.mkdir(parents=True)
    long.write_text("x" * 11)
    short.write_text("x")
    state.put_long_logs_aside()
    assert not long.exists()
    assert long.with_suffix(".log.old").exists()
    assert short.exists()
