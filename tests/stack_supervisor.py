"""`python -m tests.stack_supervisor`: the one-machine stack without its demo, until SIGTERM.

The site's own supervisor, so a test may kill a part and watch it come back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from ragsite.stack.catalogue import plan_stack
from ragsite.stack.console import Console
from ragsite.stack.state import StateDir
from ragsite.stack.supervisor import supervised


def all_up_file(state: StateDir) -> Path:
    """There once every part has come up."""
    return state.run / "all-up"


async def serve() -> None:
    """Keep every part running."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    state = StateDir.from_environment()
    with state.hold():
        plan = plan_stack(state, os.environ)
        async with supervised(plan.parts, Console().part) as supervisor:
            await supervisor.ready(*(part.name for part in plan.parts))
            state.announce(plan.environment)
            all_up_file(state).touch()
            await asyncio.Event().wait()


if __name__ == "__main__":
    os.umask(0o077)
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(serve())
