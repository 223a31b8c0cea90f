"""The process that sandboxed calls are forked from: clean, small, alone, and replaced in need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from apps.documents.tokenizer import tokenizer_file
from worker.sandbox import (
    Limits,
    SandboxCrashed,
    SandboxError,
    SandboxOutOfMemory,
    SandboxTimedOut,
    run_sandboxed,
)

MIB = 1024 * 1024
LIMITS = Limits(wall_s=10, memory_bytes=512 * MIB, output_bytes=4 * MIB)


def run(name: str, **payload: object) -> Any:
    return run_sandboxed(f"tests.worker.hostile:{name}", payload, limits=LIMITS)


def until(true: Callable[[], bool], timeout_s: float = 5) -> bool:
    deadline = time.monotonic() + timeout_s
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


def gone(pid: int) -> bool:
    """Ended; whoever inherits it may not have waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def zygotes() -> list[int]:
    """Those of this process, alive."""
    pids = [
        int(pid) for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    ]  # fmt: skip
    return [
        pid for pid in pids
        if not gone(pid) and b"zygote_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]  # fmt: skip


def test_each_call_is_a_process_of_its_own_from_one_zygote() -> None:
    first, second = run("process"), run("process")
    assert first["zygote"] == second["zygote"]
    assert first["pid"] != second["pid"]
    assert first["session"] == first["pid"]


def test_nothing_of_one_call_is_left_for_the_next() -> None:
    assert [run("leave_a_mark") for _ in range(2)] == [False, False]


def test_limits_hold_and_only_its_own_files_are_open_inside() -> None:
    inside = run("process")
    assert inside["memory"] == [LIMITS.memory_bytes] * 2
    assert inside["no_new_privileges"]
    # Request, output to nowhere, errors, reply; and the listing itself.
    assert inside["descriptors"][:4] == [0, 1, 2, 3]
    assert len(inside["descriptors"]) == 5


def test_the_zygote_has_one_thread_no_environment_and_no_file_but_the_channel() -> None:
    zygote = Path(f"/proc/{run('process')['zygote']}")
    names = {entry.split(b"=")[0] for entry in (zygote / "environ").read_bytes().split(b"\0")}
    assert names <= {b"PATH", b"LANG", b"MALLOC_ARENA_MAX", b"TOKENIZERS_PARALLELISM", b""}
    assert len(list((zygote / "task").iterdir())) == 1

    def open_files() -> list[str]:
        return sorted(os.readlink(path).partition(":")[0] for path in (zygote / "fd").iterdir())

    # The call's own socket is closed a moment after the call has been told of its end.
    assert until(lambda: len(list((zygote / "fd").iterdir())) == 4)
    assert open_files() == ["/dev/null"] * 3 + ["socket"]


def test_most_of_the_memory_allowed_is_the_call_s_own() -> None:
    assert run("allocate", mib=300) == 300 * MIB
    with pytest.raises(SandboxOutOfMemory):
        run("allocate", mib=500)


def test_a_tokenizer_is_loaded_once_and_starts_no_thread() -> None:
    path = tokenizer_file()
    if path is None:
        pytest.skip("no tokenizer installed")
    preload = ("apps.documents.tokens:load_counter", path)
    loaded = run_sandboxed(
        "tests.worker.hostile:loaded_tokenizers", {}, limits=LIMITS, preload=preload
    )
    assert loaded == 1
    inside = run("process")
    assert len(list(Path(f"/proc/{inside['zygote']}/task").iterdir())) == 1


def test_the_zygote_is_small_and_keeps_no_ended_calls() -> None:
    pid = run("process")["zygote"]
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    pss_kib = next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    assert pss_kib < 60 * 1024
    assert not children(pid)


def test_a_preload_that_fails_harms_nobody() -> None:
    for function in ("apps.documents.tokens:load_counter", "no.such:thing"):
        preload = (function, "/no/such/file")
        value = run_sandboxed(
            "tests.worker.hostile:echo", {"value": 1}, limits=LIMITS, preload=preload
        )
        assert value == 1


def test_calls_at_the_same_time_do_not_disturb_each_other() -> None:
    def one(number: int) -> object:
        if number % 3 == 0:
            with pytest.raises(SandboxError):
                run(("die", "eat_memory", "leave")[number // 3 % 3])
            return number
        return run("echo", value=number)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(48))) == list(range(48))
    assert not children(run("process")["zygote"])


def test_it_outlives_the_thread_that_made_the_first_call() -> None:
    os.kill(run("process")["zygote"], signal.SIGKILL)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(run("process")["zygote"]))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert run("process")["zygote"] == seen[0]


def test_it_survives_a_call_that_ends_and_is_given_up_at_once() -> None:
    zygote = run("process")["zygote"]
    limits = Limits(wall_s=0.6, memory_bytes=512 * MIB)
    with ThreadPoolExecutor(1) as pool:
        function = "tests.worker.hostile:sleep"
        call = pool.submit(run_sandboxed, function, {"seconds": 0.3}, limits=limits)
        assert until(lambda: bool(children(zygote)))
        os.kill(zygote, signal.SIGSTOP)
        time.sleep(1)  # by now the call has ended and its time is up: the zygote sees both at once
        os.kill(zygote, signal.SIGCONT)
        with pytest.raises(SandboxTimedOut):
            call.result(timeout=5)
    assert run("process")["zygote"] == zygote


def test_a_dead_zygote_is_replaced() -> None:
    zygote = run("process")["zygote"]
    os.kill(zygote, signal.SIGKILL)
    assert run("process")["zygote"] != zygote


def test_a_call_whose_zygote_dies_ends_and_is_run_again(tmp_path: Path) -> None:
    zygote = run("process")["zygote"]
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(run, "nap", path=str(tmp_path / "go"))
        assert until(lambda: bool(children(zygote)))
        pid = int(children(zygote))
        os.kill(zygote, signal.SIGKILL)
        assert until(lambda: gone(pid))
        (tmp_path / "go").touch()
        assert call.result(timeout=5) != zygote


def test_a_call_whose_zygote_dies_every_time_ends_in_an_error(tmp_path: Path) -> None:
    run("echo", value=1)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(run, "nap", path=str(tmp_path / "never"))
        for _ in range(2):
            assert until(lambda: any(children(pid) for pid in zygotes()))
            (zygote,) = zygotes()
            os.kill(zygote, signal.SIGKILL)
            assert until(partial(gone, zygote))
        with pytest.raises(SandboxCrashed):
            call.result(timeout=5)
    assert run("echo", value=1) == 1


_PARENT = """
import os, sys
from apps.documents.tokenizer import tokenizer_file
from worker.sandbox import Limits, run_sandboxed
LIMITS = Limits(wall_s=60, memory_bytes=512 << 20)
def run(name, **payload):
    return run_sandboxed("tests.worker.hostile:" + name, payload, limits=LIMITS)
"""


def script(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _PARENT + code, *arguments],
        cwd=settings.BASE_DIR,
        env={**os.environ, "DATABASE_URL": "postgres://secret"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_zygote_and_call_die_with_a_killed_parent(tmp_path: Path) -> None:
    code = "print(run('process')['zygote'], flush=True); run('nap', path=sys.argv[1])"
    with script(code, str(tmp_path / "never")) as parent:
        assert parent.stdout is not None
        zygote = int(parent.stdout.readline())
        assert until(lambda: bool(children(zygote)))
        pid = int(children(zygote))
        parent.kill()
    assert until(lambda: gone(pid) and gone(zygote))


def test_the_zygote_goes_quietly_when_its_parent_ends() -> None:
    with script("print(run('process')['zygote'])") as parent:
        said = parent.communicate(timeout=10)[0]
    assert parent.returncode == 0
    assert until(lambda: gone(int(said)))  # and nothing was said but its number


def test_a_fork_of_the_parent_starts_its_own() -> None:
    code = """
ours = run("process")["zygote"]
if os.fork() == 0:
    print(run("process")["zygote"] != ours, flush=True)
    os._exit(0)
os.wait()
print(run("process")["zygote"] == ours)
"""
    with script(code) as parent:
        assert parent.communicate(timeout=10)[0].split() == ["True", "True"]
