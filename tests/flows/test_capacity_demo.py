"""`manage.py capacity-demo --quick`: the whole way from an empty folder to a page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apps.capacity.failures.all import FAILURES
from ragsite.stack.state import BASE_DIR

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
_CONFIGURED = ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL")


def test_the_demo_writes_a_page_with_every_failure(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in _CONFIGURED}
    done = subprocess.run(
        [sys.executable, "manage.py", "capacity-demo", "--quick", "--folder", str(tmp_path / "d")],
        cwd=BASE_DIR,
        env={**environment, "VAR_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "d" / "report.html").read_text()
    pictures = [tmp_path / "d" / name / "chart.svg" for name in FAILURES]
    assert all(path.exists() for path in pictures)
    assert all(f'src="{name}/chart.svg"' in page for name in FAILURES)
    assert "Sweep and knee" in page
