"""Scratch folders of killed processes do not stay, and those in use do."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from django.conf import settings

from worker.sandbox_scratch import scratch_folder, sweep

_HOLDER = """
import os, signal, sys, tempfile
sys.path.insert(0, sys.argv[1])
tempfile.tempdir = sys.argv[2]
from worker.sandbox_scratch import scratch_folder
with scratch_folder() as path:
    open(os.path.join(path, "text"), "w").write("words")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def age(path: Path) -> None:
    os.utime(path, (0, 0))


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _HOLDER, str(settings.BASE_DIR), str(tmp_path)])
    (left,) = tmp_path.iterdir()
    sweep(str(tmp_path))
    assert left.exists()  # too young to be sure
    age(left)
    sweep(str(tmp_path))
    assert not left.exists()


def test_a_folder_in_use_and_strangers_things_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    other, target = tmp_path / "other", tmp_path / "target"
    other.mkdir()
    target.mkdir()
    (tmp_path / "ragsite-sandbox-link").symlink_to(target)
    with scratch_folder() as used:
        for path in (Path(used), other, target):
            age(path)
        sweep(str(tmp_path))
        assert Path(used).is_dir()
    assert not Path(used).exists()
    assert other.is_dir()
    assert target.is_dir()
