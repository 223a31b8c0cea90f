"""The one-machine stack from start to Ctrl-C: `make run`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from ragsite.stack.catalogue import Plan, plan_stack
from ragsite.stack.console import Console
from ragsite.stack.process import PartFailed, port_answers
from ragsite.stack.state import BASE_DIR, StateDir, StateInUse
from ragsite.stack.supervisor import Supervisor, supervised

INTERRUPTED = 130  # what shells report for Ctrl-C


def serve(*, once: bool) -> int:
    """Run the whole stack and its demo; the exit status.

    `once`: end after the demo's answer, with 0 only if every hop of it worked. Otherwise serve
    until SIGINT or SIGTERM, which is a good end.
    """
    # What the stack writes is its owner's alone.
    os.umask(0o077)
    console = Console()
    try:
        return asyncio.run(_serve(console, once=once))
    except asyncio.CancelledError:
        console.part("stack", "stopped")
        return INTERRUPTED if once else 0
    except (PartFailed, StateInUse) as exc:
        console.part("stack", f"stopped: {exc}")
        return 1


async def _serve(console: Console, *, once: bool) -> int:
    _stop_on_signals()
    state = StateDir.from_environment()
    port = int(os.environ.get("PORT") or 8000)
    if port_answers(port):
        raise PartFailed(f"port {port} is in use. Stop what uses it, or run with PORT={port + 1}.")
    with state.hold():
        state.put_long_logs_aside()
        console.part("stack", f"state and logs in {state.root}")
        plan = plan_stack(state, os.environ)
        async with supervised(plan.parts, console.part) as supervisor:
            url = f"http://127.0.0.1:{port}"
            demo_code = await _bring_up(supervisor, plan, console, url)
            if once:
                return demo_code
            if demo_code != 0:
                console.part("demo", "failed, as said above; the site serves all the same")
            console.part("stack", f"ready: {url}  (Ctrl-C stops it)")
            await asyncio.Event().wait()
    raise AssertionError("unreachable: serving ends by cancellation")


async def _bring_up(supervisor: Supervisor, plan: Plan, console: Console, url: str) -> int:
    """Start everything, then give the demo; its exit status."""
    await supervisor.ready("schema", "redis")
    plan.state.announce(plan.environment)
    await supervisor.ready("site")
    console.part("site", f"serves {url}")
    await supervisor.ready("worker", "encoder", "engine")
    command = [sys.executable, str(BASE_DIR / "manage.py"), "demo", "--site", url]
    return await supervisor.run_step("demo", command, plan.full_environment())


def _stop_on_signals() -> None:
    """SIGINT, SIGTERM and a closed terminal cancel the running task: everything is stopped."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("runs inside a task")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
