"""Which parts a management command gets, and from where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragsite.stack import parts_for_command
from ragsite.stack.parts_for_command import ensure_parts, parts_of
from ragsite.stack.state import StateDir
from tests.stack.fakes import clean_environment


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDir:
    """An environment that names nothing, and an empty state directory."""
    for name in set(os.environ) - set(clean_environment()):
        monkeypatch.delenv(name)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("VAR_DIR", str(tmp_path / "var"))
    return StateDir.from_environment()


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("", ()),
        ("--help", ()),
        ("ask --help", ()),
        ("check", ()),
        ("makemigrations --check", ()),
        ("collectstatic --no-input", ()),
        ("migrate", ("postgres",)),
        ("shell", ("postgres", "redis", "schema")),
        ("createsuperuser", ("postgres", "redis", "schema")),
        ("ask why?", ("postgres", "redis", "encoder", "engine", "schema")),
        ("evaluate folder", ("postgres", "redis", "schema", "encoder", "worker")),
        ("ingest docs", ("postgres", "redis", "schema")),
        ("ingest --wait docs", ("postgres", "redis", "schema", "encoder", "worker")),
    ],
)
def test_a_command_gets_the_parts_it_needs(line: str, parts: tuple[str, ...]) -> None:
    assert parts_of(line.split()) == parts


def test_a_command_that_needs_nothing_starts_nothing(
    cold: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_for_command, "plan_stack", None)
    with ensure_parts(["check"]):
        assert not cold.root.exists()


def test_what_the_environment_names_is_used(
    cold: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/ragsite")
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere")
    with ensure_parts(["shell"]):
        assert os.environ["DATABASE_URL"] == "postgresql://elsewhere/ragsite"
    assert not cold.root.exists()


def test_no_worker_is_started_for_someone_elses_documents(
    cold: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/ragsite")
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere")
    with ensure_parts(["ingest", "--wait", "docs"]):
        assert not cold.root.exists()


def test_the_running_stack_is_used(cold: StateDir) -> None:
    with cold.hold():
        cold.announce({"DATABASE_URL": "postgresql://of-the-stack", "REDIS_URL": "redis://of-it"})
        with ensure_parts(["shell"]):
            assert os.environ["DATABASE_URL"] == "postgresql://of-the-stack"


def test_a_stack_that_never_comes_up_is_not_waited_for_for_ever(
    cold: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_for_command, "_STARTING_S", 0.3)
    with cold.hold(), pytest.raises(SystemExit, match="in use by process"), ensure_parts(["shell"]):
        pytest.fail("ran without its parts")


@pytest.mark.slow
def test_a_command_works_on_a_cold_machine_and_leaves_nothing_running(cold: StateDir) -> None:
    outcome = subprocess.run(
        [sys.executable, "manage.py", "shell", "-v0", "-c",
         "from apps.tenants.models import Tenant; print('tenants:', Tenant.objects.count())"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    assert "tenants: 0" in outcome.stdout
    assert not cold.held()
    assert not (cold.root / "postgres" / "postmaster.pid").exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_question_can_be_asked_on_a_cold_machine(cold: StateDir) -> None:
    outcome = subprocess.run(
        [sys.executable, "manage.py", "ask", "--tenant=demo", "--json",
         "How are the documents of two tenants kept apart?"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    answer = json.loads(outcome.stdout)
    assert answer["citations"], answer
    assert {hop["status"] for hop in answer["hops"]} <= {"ok", "skipped"}
    assert not cold.held()
