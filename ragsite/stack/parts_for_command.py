"""Parts of the stack for the duration of one management command.

A command uses what the environment names, else the running one-machine stack, else parts that are
started for it and stopped when it ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ragsite.stack.catalogue import demo_step, is_configured, plan_stack
from ragsite.stack.part import Part, start_and_wait, wait_for
from ragsite.stack.process import PartFailed
from ragsite.stack.state import StateDir, StateInUse

_DATABASE = ("postgres", "redis", "schema")
# `schema` brings the tables up to date first: a cold machine has none.
PARTS_OF: dict[str, tuple[str, ...]] = {
    "ask": ("postgres", "redis", "encoder", "engine", "schema"),
    # Labelled questions are embedded, and whole searches are reranked.
    "tune-search": ("postgres", "redis", "encoder", "schema"),
    "evaluate": ("postgres", "redis", "schema", "encoder", "worker"),
    # These make the tables, or must not need them.
    "migrate": ("postgres",),
    "prepare_database": ("postgres",),
    "sqlmigrate": ("postgres",),
    "showmigrations": ("postgres",),
    "dbshell": ("postgres",),
    **dict.fromkeys(
        (
            *("check", "collectstatic", "compilemessages", "diffsettings", "findstatic", "help"),
            *("makemessages", "makemigrations", "sendtestemail", "settings_reference", "words"),
            *("show-failure", "startapp", "startproject", "version"),
        ),
        (),
    ),
}
# To see documents through to their end, someone has to work on them.
_TO_WAIT_FOR_DOCUMENTS = ("encoder", "worker")
_STARTING_S = 60.0


def parts_of(arguments: Sequence[str]) -> tuple[str, ...]:
    """The parts that `manage.py <arguments>` needs."""
    if not arguments or arguments[0].startswith("-") or {"-h", "--help"} & set(arguments):
        return ()
    needed = PARTS_OF.get(arguments[0], _DATABASE)
    if arguments[0] == "ingest" and "--wait" in arguments:
        return (*needed, *_TO_WAIT_FOR_DOCUMENTS)
    return needed


@contextmanager
def ensure_parts(arguments: Sequence[str]) -> Iterator[None]:
    """Have what `manage.py <arguments>` needs at hand, named in `os.environ`, for the block.

    Ends the process with a message when a part does not start.
    """
    needed = [name for name in parts_of(arguments) if not is_configured(name, os.environ)]
    # A database that is someone else's is migrated by them, and a queue worked on.
    if set(needed) <= {"schema"} or (
        "worker" in needed and not {"postgres", "redis"} & set(needed)
    ):
        yield
        return
    with ExitStack() as stack:
        try:
            os.environ.update(_reach(StateDir.from_environment(), needed, stack))
        except (PartFailed, StateInUse) as exc:
            sys.exit(str(exc))
        yield


def _reach(state: StateDir, needed: Sequence[str], stack: ExitStack) -> dict[str, str]:
    """The environment of the running stack, or of parts started until `stack` is closed."""
    deadline = time.monotonic() + _STARTING_S
    while True:
        if (environment := state.running_environment()) is not None:
            return environment
        try:
            stack.enter_context(state.hold())
            break
        except StateInUse:
            # A stack that is just starting; or a command like this one, which ends soon.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    first_question = "engine" in needed and "postgres" in needed and not state.demo_file.exists()
    if first_question:
        # A cold machine has nobody to ask for and nothing to ask about: the demo is made first.
        needed = [*needed, "worker"]
    plan = plan_stack(state, os.environ, needed)
    if first_question:
        plan.parts.append(demo_step(plan))
    names = ", ".join(part.name for part in plan.parts)
    print(f"Starting {names} for this command…", file=sys.stderr)  # noqa: T201
    stack.enter_context(started(plan.parts))
    return plan.environment


@contextmanager
def started(parts: Sequence[Part]) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Run `parts` without a supervisor for the block; their processes by name.

    The model servers load while the others are waited for. Raises PartFailed.
    """
    running: dict[str, subprocess.Popen[bytes]] = {}
    signal.signal(signal.SIGTERM, _exit_on_signal)
    try:
        slow = [part for part in parts if part.name in ("encoder", "engine")]
        for part in slow:
            part.prepare()
            running[part.name] = part.spawn()
        for part in (part for part in parts if part not in slow):
            process = start_and_wait(part)
            if not part.one_shot:
                running[part.name] = process
        for part in slow:
            wait_for(part, running[part.name])
        yield running
    finally:
        for part in reversed(parts):
            if part.name in running:
                part.stop(running[part.name])


def _exit_on_signal(number: int, frame: object) -> None:
    """Leave through the `finally` blocks."""
    sys.exit(128 + number)
