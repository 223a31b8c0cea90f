"""The worker's own clock."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from celery.beat import PersistentScheduler

from worker import lifecycle
from worker.celery import app


def test_the_clock_keeps_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lifecycle.start_clock(sender=SimpleNamespace(app=app))
    clock = lifecycle._clocks.pop()
    try:
        assert not isinstance(clock.service.scheduler, PersistentScheduler)
        assert list(tmp_path.iterdir()) == []
    finally:
        clock.stop()
