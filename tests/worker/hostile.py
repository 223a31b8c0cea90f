"""Functions that a sandbox has to survive. Named by tests, run inside it."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path


class Declined(Exception):
    code = "declined"


def echo(value: object) -> object:
    return value


def environment() -> dict[str, str]:
    return dict(os.environ)


def modules() -> list[str]:
    return sorted(sys.modules)


def decline() -> None:
    raise Declined("not this one")


def hang() -> None:
    time.sleep(600)


def spin() -> None:
    while True:
        pass


def hang_with_child() -> None:
    subprocess.Popen(["/bin/sleep", "613"])
    time.sleep(600)


def eat_memory() -> int:
    return len(bytearray(4 << 30))


def die() -> None:
    ctypes.string_at(0)


def leave() -> None:
    os._exit(0)


def flood() -> bytes:
    return b"x" * (8 << 20)


def leak_words() -> None:
    raise RuntimeError("the secret of the document")


def reach(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def process() -> dict[str, object]:
    return {
        "pid": os.getpid(),
        "zygote": os.getppid(),
        "session": os.getsid(0),
        "descriptors": sorted(int(fd) for fd in os.listdir("/proc/self/fd")),
        "memory": resource.getrlimit(resource.RLIMIT_AS),
        "no_new_privileges": "NoNewPrivs:\t1" in Path("/proc/self/status").read_text(),
    }


def allocate(mib: int) -> int:
    return len(bytearray(mib << 20))


def leave_a_mark() -> bool:
    """Whether an earlier call has left one."""
    found = hasattr(os, "mark")
    os.mark = True  # type: ignore[attr-defined]
    return found


def nap(path: str) -> int:
    """Sleep until `path` is there."""
    while not os.path.exists(path):
        time.sleep(0.02)
    return os.getppid()


def signal_all(pids: list[int]) -> list[str]:
    """How each way to end another process fails."""
    own_file = open("mine", "w")  # noqa: SIM115
    ways: list[Callable[[int], object]] = [
        lambda pid: os.kill(pid, signal.SIGKILL),
        lambda pid: os.killpg(pid, signal.SIGKILL),
        lambda pid: _call("tgkill", pid, pid, 9),
        lambda pid: _call("tkill", pid, 9),
        lambda pid: os.pidfd_open(pid),
        lambda pid: resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0)),
        lambda pid: fcntl.fcntl(own_file, fcntl.F_SETOWN, pid),
        lambda pid: os.sched_setaffinity(pid, {0}),
        lambda pid: os.setpriority(os.PRIO_USER, 0, 19),
    ]
    return [outcome(partial(way, pid)) for pid in pids for way in ways]


def outcome(act: Callable[[], object]) -> str:
    """The name of the error, or "done"."""
    try:
        act()
    except OSError as exc:
        return errno.errorcode[exc.errno or 0]
    except ValueError:  # what setrlimit says for EPERM
        return "EPERM"
    return "done"


_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: int) -> None:
    number = _NUMBERS[name][platform.machine() == "aarch64"]
    if _libc.syscall(number, *(ctypes.c_long(value) for value in arguments)) < 0:
        raise OSError(ctypes.get_errno(), name)


# On x86_64 and aarch64.
_NUMBERS = {
    "tgkill": (234, 131), "tkill": (200, 130), "clone": (56, 220), "clone3": (435, 435),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "mount": (165, 40), "unshare": (272, 97),
    "setns": (308, 268), "pivot_root": (155, 41), "init_module": (175, 105), "bpf": (321, 280),
    "keyctl": (250, 219), "io_uring_setup": (425, 425), "memfd_create": (319, 279),
    "execveat": (322, 281), "shmget": (29, 194), "setsid": (112, 157),
}  # fmt: skip


def system_calls() -> dict[str, str]:
    """What becomes of calls that no parser needs, with arguments that mean no harm."""
    names = set(_NUMBERS) - {"tgkill", "tkill", "clone"}
    found = {name: outcome(partial(_call, name, 0, 0, 0, 0, 0)) for name in names}
    found["process"] = outcome(lambda: _call("clone", signal.SIGCHLD, 0, 0, 0, 0))
    found["fork"] = outcome(os.fork)
    found["exec"] = outcome(lambda: os.execv("/bin/true", ["true"]))  # noqa: S606
    found["chown"] = outcome(lambda: os.chown(".", os.getuid(), os.getgid()))
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK):
        found[f"socket {family.name}"] = outcome(partial(socket.socket, family))
    found["stay"] = outcome(lambda: _raise_prctl(1, 0))
    found["be seen"] = outcome(lambda: _raise_prctl(4, 1))
    return found


def _raise_prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "prctl")


def other_architecture() -> int:
    """getpid by the number it has in the x32 set: negated errno, or a process id."""
    return int(_libc.syscall(0x40000000 | 39) and -ctypes.get_errno())


def threads(count: int) -> int:
    with ThreadPoolExecutor(count) as pool:
        gate = threading.Barrier(count)
        return sum(pool.map(lambda _: gate.wait() >= 0, range(count)))


def abort() -> None:
    os.abort()


def child_says(words: str) -> str:
    """Needs `Limits.children`."""
    return subprocess.run(["/bin/echo", words], capture_output=True, text=True, check=True).stdout


def raise_limits() -> list[str]:
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    return [outcome(partial(resource.setrlimit, kind, unlimited)) for kind in kinds]


def capabilities() -> list[str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("CapEff", "CapPrm", "CapInh", "CapAmb"))]


def read_all(path: str, others: list[str]) -> list[str]:
    """How reading each ends; of `path`, the payload's own file, what it says."""
    return [Path(path).read_text(), *(outcome(Path(other).read_bytes) for other in others)]


def write_all(paths: list[str]) -> list[str]:
    """How each way to change these files, and their folders, ends."""
    return [
        outcome(partial(act, path))
        for path in paths
        for act in (
            lambda path: open(path, "a"),
            lambda path: os.truncate(path, 0),
            os.unlink,
            lambda path: os.rename(path, path + ".moved"),
            lambda path: os.symlink("/", path + ".link"),
            lambda path: os.mkdir(path + ".folder"),
        )
    ]


def change_rights(paths: list[str]) -> None:
    for path in paths:
        os.chmod(path, 0o777)  # noqa: S103


def write_in_scratch() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder, "first")
        first.write_bytes(b"kept")
        return first.rename(Path(folder).parent / "second").read_bytes()


def loaded_tokenizers() -> int:
    from apps.documents.tokens import load_counter

    return load_counter.cache_info().currsize


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def count_to(end: int, *, then: str = "") -> Iterator[int]:
    """Items of a stream, and how it goes wrong after the last."""
    yield from range(end)
    if then == "decline":
        decline()
    elif then == "die":
        die()
    elif then == "hang":
        hang()
    elif then == "eat_memory":
        eat_memory()


def large_item(size: int) -> Iterator[bytes]:
    yield b"x" * size


def fill_the_disk(files: int, size: int) -> None:
    for number in range(files):
        Path(str(number)).write_bytes(b"x" * size)
    time.sleep(600)


def nest_folders(depth: int) -> int:
    for _ in range(depth):
        os.mkdir("d")
        os.chdir("d")
    return depth


def half_an_item(words: bytes) -> Iterator[bytes]:
    """Say these on the reply's descriptor in place of an item, then nothing any more."""
    os.write(3, words)
    time.sleep(600)
    yield b""


def endless(size: int, *, pause_s: float = 0) -> Iterator[bytes]:
    while True:
        time.sleep(pause_s)
        yield b"x" * size


def refuse(code: str, message: str) -> None:
    refusal = Exception(message)
    refusal.code = code  # type: ignore[attr-defined]
    raise refusal


def say(words: bytes) -> None:
    """A reply of one's own making."""
    os.pwrite(3, words, 0)
    os._exit(0)


def bomb(element: bytes, count: int) -> None:
    """A reply that is small as bytes, and vast as objects."""
    say(b"\x81\xa6result\xdd" + count.to_bytes(4, "big") + element * count)
