"""The supervisor with small parts, and with real ones where only those can show it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ragsite.stack import supervisor as supervisor_module
from ragsite.stack.process import PartFailed
from ragsite.stack.supervisor import supervised
from tests import parts
from tests.stack.fakes import FOREVER, clean_environment, fake, is_gone


@pytest.fixture
def told() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def tell(told: list[tuple[str, str]]) -> Callable[[str, str], None]:
    return lambda name, words: told.append((name, words))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Crashes are not waited out."""
    monkeypatch.setattr(supervisor_module, "_BACK_OFF_S", (0.01,) * 5)


def children() -> list[psutil.Process]:
    """Without those of the tests' own database, which starts and ends some as it pleases."""
    found = psutil.Process().children(recursive=True)
    server = parts.postgres.process
    theirs = psutil.Process(server.pid).children(recursive=True) if server is not None else []
    return [child for child in found if child not in theirs]


@pytest.fixture(autouse=True)
def leaves_no_process() -> Iterator[None]:
    before = {child.pid for child in children()}
    yield
    left = [child for child in children() if child.pid not in before]
    assert not [child.pid for child in left if not is_gone(child.pid)]


async def until(condition: Callable[[], bool], *, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited for in vain"
        await asyncio.sleep(0.05)


async def test_a_part_starts_after_what_it_needs_is_ready(
    tmp_path: Path, tell: Callable[[str, str], None], told: list[tuple[str, str]]
) -> None:
    is_up = tmp_path / "is-up"
    slow = fake(
        "slow",
        tmp_path,
        f"import time; time.sleep(0.3); open({str(is_up)!r}, 'w'); time.sleep(600)",
        ready=is_up.exists,
    )
    # Refuses to run before the other is ready.
    needy = fake("needy", tmp_path, f"open({str(is_up)!r}); {FOREVER}", needs=("slow",))
    async with supervised([needy, slow], tell) as stack:
        await stack.ready("needy")
    assert [name for name, words in told if words.startswith("up")] == ["slow", "needy"]


async def test_a_step_is_done_when_it_ends_and_is_not_run_again(
    tmp_path: Path, tell: Callable[[str, str], None], told: list[tuple[str, str]]
) -> None:
    count = tmp_path / "count"
    step = fake("step", tmp_path, f"open({str(count)!r}, 'a').write('x')", one_shot=True)
    after = fake("after", tmp_path, needs=("step",))
    async with supervised([step, after], tell) as stack:
        await stack.ready("after")
        await asyncio.sleep(0.3)
    assert count.read_text() == "x"
    assert told[0][1].startswith("done in")


async def test_a_failing_step_ends_the_stack_with_what_it_said(
    tmp_path: Path, tell: Callable[[str, str], None]
) -> None:
    step = fake("step", tmp_path, "raise SystemExit('the reason')", one_shot=True)
    with pytest.raises(PartFailed, match=r"(?s)step ended while starting \(exit 1\).*the reason"):
        async with supervised([step, fake("other", tmp_path)], tell):
            await asyncio.sleep(30)


@pytest.mark.usefixtures("quick")
async def test_a_crashed_part_is_started_again_and_its_children_are_gone(
    tmp_path: Path, tell: Callable[[str, str], None], told: list[tuple[str, str]]
) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {FOREVER!r}])\n"
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}} {{child.pid}}\\n')\n"
        "time.sleep(600)"
    )

    def lines() -> list[list[int]]:
        text = pids.read_text() if pids.exists() else ""
        return [[int(word) for word in line.split()] for line in text.splitlines()]

    async with supervised([fake("part", tmp_path, code)], tell):
        await until(lambda: len(lines()) == 1)
        os.kill(lines()[0][0], signal.SIGKILL)
        await until(lambda: len(lines()) == 2)
        await until(lambda: is_gone(lines()[0][1]))
    assert any("ended (killed by SIGKILL); starting it again" in words for _, words in told)
    # Killed when `supervised` returns; the kernel takes a moment to end them.
    await until(lambda: all(is_gone(pid) for line in lines() for pid in line))


@pytest.mark.usefixtures("quick")
async def test_a_part_that_keeps_crashing_stops_the_stack(
    tmp_path: Path, tell: Callable[[str, str], None], told: list[tuple[str, str]]
) -> None:
    broken = fake("broken", tmp_path, "raise SystemExit('no such file')", ready=lambda: False)
    with pytest.raises(PartFailed, match=r"(?s)broken crashed 5 times.*no such file"):
        async with supervised([broken, fake("other", tmp_path)], tell):
            await asyncio.sleep(30)
    assert sum("starting it again" in words for _, words in told) == 4


@pytest.mark.usefixtures("quick")
async def test_a_part_that_is_never_ready_is_stopped_and_tried_again(
    tmp_path: Path, tell: Callable[[str, str], None], told: list[tuple[str, str]]
) -> None:
    hangs = fake("hangs", tmp_path, ready=lambda: False, timeout_s=0.2)
    async with supervised([hangs], tell):
        await until(lambda: len(told) >= 2)
    assert "hangs was not ready within 0 s" in told[0][1]


async def test_parts_stop_in_the_opposite_order(
    tmp_path: Path, tell: Callable[[str, str], None], told: list[tuple[str, str]]
) -> None:
    parts = [fake(name, tmp_path) for name in ("first", "second", "third")]
    async with supervised(parts, tell) as stack:
        await stack.ready("first", "second", "third")
    assert [name for name, words in told if words == "stopping"] == ["third", "second", "first"]


async def test_an_error_of_the_block_passes_and_stops_the_parts(
    tmp_path: Path, tell: Callable[[str, str], None]
) -> None:
    async def serve() -> None:
        async with supervised([fake("part", tmp_path)], tell) as stack:
            await stack.ready("part")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await serve()


async def test_a_second_interrupt_kills_what_does_not_stop(
    tmp_path: Path, tell: Callable[[str, str], None]
) -> None:
    is_up = tmp_path / "is-up"
    stubborn = fake(
        "stubborn",
        tmp_path,
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(is_up)!r}, 'w')\n"
        "time.sleep(600)",
        ready=is_up.exists,
        grace_s=60.0,
    )
    running = asyncio.Event()

    async def serve() -> None:
        async with supervised([stubborn], tell) as stack:
            await stack.ready("stubborn")
            running.set()
            await asyncio.sleep(600)

    task = asyncio.create_task(serve())
    await running.wait()
    task.cancel()
    await asyncio.sleep(0.3)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_supervisor_that_is_killed_leaves_no_stray(tmp_path: Path, end: signal.Signals) -> None:
    """With real PostgreSQL, whose own children must go too, as another user when we are root."""
    script = tmp_path / "stack.py"
    script.write_text(_REAL_PARTS)
    tmp_path.chmod(0o755)
    running = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env=clean_environment(PYTHONPATH=os.getcwd()),
        stdout=subprocess.PIPE,
    )
    assert running.stdout is not None
    with running.stdout:
        assert running.stdout.readline() == b"up\n"
        parts = psutil.Process(running.pid).children(recursive=True)
        assert {"postgres", "redis-server"} <= {part.name() for part in parts}
        running.send_signal(end)
        running.wait(30)
    deadline = time.monotonic() + 20
    while not all(is_gone(part.pid) for part in parts):
        assert time.monotonic() < deadline, [part for part in parts if not is_gone(part.pid)]
        time.sleep(0.1)


_REAL_PARTS = """
import asyncio, signal, sys
from pathlib import Path
from ragsite.stack.catalogue import plan_stack
from ragsite.stack.state import StateDir
from ragsite.stack.supervisor import supervised

async def main():
    task = asyncio.current_task()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    plan = plan_stack(StateDir(Path(sys.argv[1]) / "var"), {}, ["postgres", "redis"])
    async with supervised(plan.parts, lambda name, words: None) as stack:
        await stack.ready("postgres", "redis")
        print("up", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
