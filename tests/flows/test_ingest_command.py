"""`manage.py ingest` over files that break ingestion elsewhere, through the whole running stack.

Every file ends ready or failed with a fitting reason, the worker lives, and doing it again changes
nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsite.stack.state import BASE_DIR
from tests.documents.test_torture import FOLDER, REFUSED
from tests.running_stack import Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

FILES = FOLDER / "files"
# Per file, on a machine of one's own.
SECONDS_MAX = 30.0
Ingest = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def name() -> str:
    return f"Folder {uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def ingest(stack: Stack, name: str) -> Ingest:
    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        done = manage(stack, name, *arguments, "--json")
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout)

    return run


def manage(stack: Stack, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "manage.py", "ingest", "--tenant=demo", "--create"),
            *(f"--collection={name}", *arguments),
        ],
        cwd=BASE_DIR,
        env=stack.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )


@pytest.mark.skipif(not FILES.is_dir(), reason="../shared/data/torture is not there")
def test_every_file_of_the_torture_folder_ends_for_a_fitting_reason(
    stack: Stack, name: str, ingest: Ingest
) -> None:
    worker = stack.process("worker").pid
    code, found = ingest("--wait", str(FILES))
    outcomes = {each["path"]: each for each in found["documents"]}
    assert len(outcomes) == len(list(FILES.iterdir()))
    assert {each["state"] for each in outcomes.values()} <= {"ready", "failed", "unchanged"}
    wrong = {
        path: (each["code"], each["message"])
        for path, each in outcomes.items()
        if (each["code"] if each["state"] == "failed" else "") != REFUSED.get(path, "")
    }
    assert not wrong
    assert all(each["message"] for each in outcomes.values() if each["state"] == "failed")
    assert code == 1, "some failed"
    assert stack.process("worker").pid == worker
    assert_again_changes_nothing(stack, name, ingest)
    assert slow_ones(stack, name) == []


def assert_again_changes_nothing(stack: Stack, name: str, ingest: Ingest) -> None:
    before = everything(stack, name)
    batches = stack.rows("SELECT count(*) FROM documents_batch")
    code, found = ingest("--wait", str(FILES))
    assert code == 1
    assert set(found["counts"]) == {"total", "failed", "unchanged"}
    assert everything(stack, name) == before
    assert stack.rows("SELECT count(*) FROM documents_batch") == batches


def everything(stack: Stack, name: str) -> list[tuple[Any, ...]]:
    return stack.rows(
        """
        SELECT d.path, d.version, d.id, d.state, d.updated_at, d.error_code,
            (SELECT count(*) FROM documents_chunk c WHERE c.document_id = d.id)
        FROM documents_document d JOIN documents_collection k ON k.id = d.collection_id
        WHERE k.name = %s ORDER BY d.path, d.version
        """,
        name,
    )


def slow_ones(stack: Stack, name: str) -> list[tuple[Any, ...]]:
    """Files that were read for longer than they may; embedding takes what the machine takes."""
    return stack.rows(
        """
        SELECT d.path, sum(s.work_ms) FROM telemetry_span s
        JOIN documents_document d ON d.id = s.trace_id
        JOIN documents_collection k ON k.id = d.collection_id
        WHERE k.name = %s AND s.hop IN ('parse', 'chunk') GROUP BY d.path HAVING sum(s.work_ms) > %s
        """,
        name,
        SECONDS_MAX * 1000 * max(1.0, os.getloadavg()[1] / (os.cpu_count() or 1)),
    )


@pytest.mark.skipif(not FILES.is_dir(), reason="../shared/data/torture is not there")
def test_passwords_open_what_waits_for_them(
    stack: Stack, name: str, ingest: Ingest, tmp_path: Path
) -> None:
    passwords = tmp_path / "passwords.tsv"
    passwords.write_text("r6-user-password.pdf\tasdfzxcv\ntestPassword4Spaces.pdf\t    \n")
    paths = [str(FILES / "r6-user-password.pdf"), str(FILES / "testPassword4Spaces.pdf")]
    code, found = ingest("--wait", "--passwords", str(passwords), *paths)
    assert [(each["state"], each["code"]) for each in found["documents"]] == [("ready", "")] * 2
    assert code == 0


def test_a_table_tells_the_outcome(stack: Stack, name: str, tmp_path: Path) -> None:
    (tmp_path / "mill.md").write_text(f"# The mill {uuid.uuid4()}\n\nA stork nests on it.\n")
    (tmp_path / "empty.md").touch()
    done = manage(stack, name, "--wait", str(tmp_path))
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["path", "state", "pages", "passages", "seconds", "reason"]
    assert lines[1].split()[:2] == ["empty.md", "failed"]
    assert lines[2].split()[:4] == ["mill.md", "ready", "1", "1"]
    assert "1 failed, 1 ready" in lines[-1]
    assert done.returncode == 1


def test_a_cold_machine_starts_what_it_needs_and_leaves_nothing_running(
    stack: Stack, ingest: Ingest, tmp_path: Path
) -> None:
    (tmp_path / "cold.md").write_text(f"# A cold morning {uuid.uuid4()}\n\nThe pond froze.\n")
    with stack.stopped():
        code, found = ingest("--wait", str(tmp_path))
        left = subprocess.run(["pgrep", "--full", str(stack.var)], capture_output=True, check=False)
        assert left.returncode == 1, left.stdout
    assert code == 0
    assert found["counts"] == {"total": 1, "ready": 1}
