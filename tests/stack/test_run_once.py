"""`make run ONCE=1` for real: every part, the documentation ingested, one question answered."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest

from ragsite.stack.process import free_port
from tests.stack.fakes import clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def run_once(var: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "run", "ONCE=1", f"PORT={free_port()}"],
        env=clean_environment(VAR_DIR=str(var)),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def var(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run-once")
    folder.chmod(0o755)
    return folder / "var"


def test_the_first_run_answers_with_a_citation_and_the_hops(var: Path) -> None:
    outcome = run_once(var)
    said = outcome.stdout
    assert outcome.returncode == 0, said + outcome.stderr
    assert "documents to ingest, 0 unchanged" in said
    assert "member@demo.example" in said
    assert "\n[1]" in said
    for hop in ("cache", "rewrite", "embed", "search", "rerank", "assemble", "generate", "stream"):
        assert f"\n{hop} " in said
    assert json.loads((var / "demo.json").read_text())["password"] in said
    assert stat.S_IMODE((var / "demo.json").stat().st_mode) == 0o600


def test_the_second_run_ingests_nothing_and_serves_its_first_page_soon(var: Path) -> None:
    outcome = run_once(var)
    said = outcome.stdout
    assert outcome.returncode == 0, said + outcome.stderr
    assert "0 documents to ingest" in said
    serves = next(line for line in said.splitlines() if " serves http://" in line)
    assert float(serves.split()[0]) < 15


def test_nothing_is_left_running(var: Path) -> None:
    left = subprocess.run(["pgrep", "--full", str(var)], capture_output=True, check=False)
    assert left.returncode == 1, left.stdout
    assert not (var / "run" / "stack.json").exists()
