"""The stack that is measured, in a state directory that is removed after the run."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ragsite.stack.catalogue import plan_stack
from ragsite.stack.parts_for_command import started
from ragsite.stack.process import free_port
from ragsite.stack.state import StateDir

# Long enough to time tokens, short enough for hundreds of questions; prompts are full-sized.
ANSWER_TOKENS = 32


@dataclass(frozen=True)
class Stand:
    """A running stack."""

    site: str
    processes: dict[str, subprocess.Popen[bytes]]


@contextmanager
def running_stack() -> Iterator[Stand]:
    """Start every part and set Django up against them."""
    folder = Path(tempfile.mkdtemp(prefix="ragsite-bench-"))
    folder.chmod(0o755)  # PostgreSQL passes through it, as another user when we are root
    port = free_port()
    os.environ.update(
        VAR_DIR=str(folder),
        PORT=str(port),
        GENERATION_MAX_TOKENS=str(ANSWER_TOKENS),
        DJANGO_SETTINGS_MODULE="ragsite.settings",
        LOG_LEVEL="WARNING",
    )
    state = StateDir(folder)
    try:
        with state.hold():
            plan = plan_stack(state, os.environ)
            with started(plan.parts) as processes:
                os.environ.update(plan.environment)
                import django

                django.setup()
                yield Stand(f"http://127.0.0.1:{port}", processes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
