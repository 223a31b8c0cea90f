"""The stack that is measured, in a state directory that is removed after the run."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ragsite.stack.catalogue import EVERYTHING, Plan, plan_stack, worker_part
from ragsite.stack.part import Part, start_and_wait
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
    plan: Plan

    @contextmanager
    def another_worker(self) -> Iterator[None]:
        """A second worker process for the block."""
        name = "worker-2"
        with started([worker_part(self.plan, name)]) as processes:
            self.processes.update(processes)
            try:
                yield
            finally:
                del self.processes[name]

    def restart_worker(self, options: Sequence[str] = ()) -> None:
        """A new worker process, with other options of Celery's."""
        self._replace(worker_part(self.plan, options=options))

    def restart_encoder(self, **environment: str) -> None:
        """The encoder anew at its address, with these settings besides."""
        part = next(part for part in self.plan.parts if part.name == "encoder")
        self._replace(replace(part, env={**(part.env or {}), **environment}))

    def _replace(self, part: Part) -> None:
        part.stop(self.processes[part.name])
        self.processes[part.name] = start_and_wait(part)


@contextmanager
def running_stack(
    parts: Iterable[str] = EVERYTHING, *, answer_tokens: int = ANSWER_TOKENS
) -> Iterator[Stand]:
    """Start `parts` and set Django up against them; one stack a process."""
    folder = Path(tempfile.mkdtemp(prefix="ragsite-bench-"))
    folder.chmod(0o755)  # PostgreSQL passes through it, as another user when we are root
    port = free_port()
    os.environ.update(
        VAR_DIR=str(folder),
        PORT=str(port),
        GENERATION_MAX_TOKENS=str(answer_tokens),
        DJANGO_SETTINGS_MODULE="ragsite.settings",
        LOG_LEVEL="WARNING",
    )
    state = StateDir(folder)
    try:
        with state.hold():
            plan = plan_stack(state, os.environ, parts)
            with started(plan.parts) as processes:
                os.environ.update(plan.environment)
                import django

                django.setup()
                yield Stand(f"http://127.0.0.1:{port}", processes, plan)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
