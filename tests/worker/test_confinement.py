"""What code that has taken over a parser can do: nothing to others, and little for itself."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from worker import sandbox, seccomp
from worker.sandbox import Limits, SandboxCrashed, run_sandboxed
from worker.seccomp import _program

MIB = 1024 * 1024
LIMITS = Limits(wall_s=10, memory_bytes=512 * MIB, output_bytes=4 * MIB)

needs_filter = pytest.mark.skipif(
    platform.machine() not in seccomp._ARCHES, reason="no system call filter on this machine"
)
needs_landlock = pytest.mark.skipif(
    ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) < 6,
    reason="Landlock is not in this kernel, or an older one",
)


def run(name: str, limits: Limits = LIMITS, **payload: object) -> Any:
    return run_sandboxed(f"tests.worker.hostile:{name}", payload, limits=limits)


@needs_filter
def test_no_process_socket_or_kernel_interface_is_to_be_had() -> None:
    found = run("system_calls")
    assert found.pop("clone3") == "ENOSYS"  # libc falls back to clone
    assert {name: end for name, end in found.items() if end != "EPERM"} == {}


@needs_filter
def test_no_other_process_can_be_signalled_or_limited() -> None:
    victim = subprocess.Popen(["/bin/sleep", "30"], start_new_session=True)
    try:
        zygote = run("process")["zygote"]
        assert set(run("signal_all", pids=[victim.pid, zygote, os.getpid()])) == {"EPERM"}
        assert victim.poll() is None
        assert run("process")["zygote"] == zygote
    finally:
        victim.kill()
        victim.wait()


def test_threads_work_and_aborting_ends_only_itself() -> None:
    assert run("threads", count=8) == 8
    with pytest.raises(SandboxCrashed):
        run("abort")


@needs_filter
@pytest.mark.skipif(platform.machine() != "x86_64", reason="has no second set of numbers")
def test_the_other_set_of_system_call_numbers_is_refused() -> None:
    assert run("other_architecture") == -1  # EPERM


@needs_filter
def test_children_are_only_for_calls_that_ask_for_them() -> None:
    limits = Limits(wall_s=10, memory_bytes=512 * MIB, children=True)
    assert run("child_says", limits, words="hello") == "hello\n"
    with pytest.raises(SandboxCrashed):
        run("child_says", words="hello")


def test_limits_cannot_be_raised_and_no_capability_is_left() -> None:
    assert set(run("raise_limits")) == {"EPERM"}
    values = {line.split()[1] for line in run("capabilities")}
    assert values == {"0" * 16}


@needs_landlock
def test_of_all_uploads_only_the_payload_s_file_can_be_read(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.write_text("mine")
    other.write_text("theirs")
    others = [other, settings.BASE_DIR / "pyproject.toml", Path("/etc/shadow"), Path("/etc/passwd")]
    others += [Path(f"/proc/{pid}/environ") for pid in (os.getpid(), run("process")["zygote"])]
    others += [Path(f"/proc/{os.getpid()}/mem"), Path(f"/proc/{os.getpid()}/cmdline")]
    found = run("read_all", path=str(own), others=[str(path) for path in others])
    assert found[0] == "mine"
    assert set(found[1:]) == {"EACCES"}


@needs_landlock
def test_nothing_outside_its_scratch_folder_can_be_written(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    paths = [str(victim), str(Path(settings.BASE_DIR, "worker", "sandbox.py"))]
    assert set(run("write_all", paths=paths)) <= {"EACCES", "EXDEV"}
    assert victim.read_text() == "kept"
    assert os.listdir(tmp_path) == ["victim"]
    assert run("write_in_scratch") == b"kept"


@needs_filter
def test_rights_of_files_stay_as_they_are(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.touch(mode=0o600)
    run("change_rights", paths=[str(victim)])
    assert victim.stat().st_mode & 0o777 == 0o600


def test_a_kernel_without_these_is_told() -> None:
    script = f"""
import sys
sys.path.insert(0, {str(settings.BASE_DIR)!r})
from worker import landlock, sandbox_child, seccomp
seccomp._ARCHES.clear()
landlock._CREATE = 9999
sandbox_child._close_in({{
    "cpu_s": 1, "wall_s": 1, "memory_bytes": 1 << 29, "output_bytes": 1 << 20, "open_files": 64,
    "children": False}}, {os.getpid()}, [])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert sandbox._LACKS[1] in done.stderr
    assert sandbox._LACKS[2] in done.stderr


# AUDIT_ARCH, and some system calls' numbers.
MACHINES = {
    "x86_64": (0xC000003E, {"execve": 59, "clone": 56, "kill": 62, "fchmod": 91, "socket": 41}),
    "aarch64": (
        0xC00000B7,
        {"execve": 221, "clone": 220, "kill": 129, "fchmod": 52, "socket": 198},
    ),
}
ALLOW, EPERM, NOTHING = 0x7FFF0000, 0x50001, 0x50000
THREAD, NEW_USER = 0x10000, 0x10000000


def verdict(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """What the kernel's machine would return: the few instructions used here."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    at, value = 0, 0
    while True:
        code, if_true, if_false, operand = struct.unpack_from("<HBBI", program, at * 8)
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("<I", data, operand)
        elif code == 0x54:
            value &= operand
        elif code == 0x06:
            return int(operand)
        else:
            true = value == operand if code == 0x15 else value >= operand
            at += if_true if true else if_false


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_decides_alike_on_all_machines(machine: str) -> None:
    arch, numbers = MACHINES[machine]

    def asked(name: str, *arguments: int, children: bool = False) -> int:
        program = _program(machine, 1234, children=children)
        return verdict(program, arch, numbers[name], *arguments)

    assert asked("execve") == asked("socket") == EPERM
    assert asked("execve", children=True) == ALLOW
    assert asked("socket", children=True) == EPERM
    assert asked("fchmod") == NOTHING
    assert asked("clone", THREAD) == ALLOW
    assert asked("clone", 17) == asked("clone", THREAD | NEW_USER) == EPERM
    assert asked("clone", 17, children=True) == ALLOW
    assert asked("clone", 17 | NEW_USER, children=True) == EPERM
    assert asked("kill", 1234, 6) == ALLOW
    assert asked("kill", 1, 9) == asked("kill", 0, 9) == asked("kill", 2**32 - 1, 9) == EPERM
    other = next(other for name, (other, _) in MACHINES.items() if name != machine)
    assert verdict(_program(machine, 1, children=False), other, 1000) == EPERM
    assert verdict(_program(machine, 1, children=False), arch, 1000) == ALLOW
