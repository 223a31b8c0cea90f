"""Running a function on hostile input in a process of its own, with limits.

The process is forked from a warm, clean one (`worker.zygote`) for this call alone. It gets an empty
environment, limits on memory, CPU, file size and open files, and dies with the parent. It has no
privilege, network, socket or child, signals nobody (`worker.seccomp`), writes in a scratch folder
and reads the one file that `payload["path"]` names (`worker.landlock`). What passes in and out is
MessagePack, in unnamed files or, item by item, through a pipe: nothing it can say is executed, and
a flood stops at a size limit.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import IO, Any

import msgpack  # type: ignore[import-untyped]

from worker.sandbox_errors import (
    SandboxCrashed,
    SandboxError,
    SandboxOutOfMemory,
    SandboxOutputTooLarge,
    SandboxRefused,
    SandboxTimedOut,
)
from worker.sandbox_reply import Items, no_result, unpack_reply
from worker.sandbox_scratch import is_over, scratch_folder
from worker.zygote import Call, ZygoteLost

__all__ = [
    "Limits",
    "SandboxCrashed",
    "SandboxError",
    "SandboxOutOfMemory",
    "SandboxOutputTooLarge",
    "SandboxRefused",
    "SandboxTimedOut",
    "run_sandboxed",
    "run_sandboxed_stream",
]

logger = logging.getLogger(__name__)

_TICK_S = 5.0
_LOOK_S = 1.0
_ATTEMPTS = 2
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """What one run may use."""

    wall_s: float  # for the result; of a stream, for each of its items
    memory_bytes: int  # address space
    output_bytes: int = 256 * _MIB  # the result or one item; also any one file it writes
    open_files: int = 256
    cpu_s: float = 0.0  # 0: what two threads can use in `wall_s`
    stream_bytes: int = 2048 * _MIB  # all items of a stream together
    stream_wall_s: float = 0.0  # waiting for all of them together; 0: thirty times `wall_s`
    scratch_bytes: int = 1024 * _MIB  # files in its scratch folder together
    scratch_files: int = 1000
    children: bool = False  # may it start processes and other programs, under the same limits


@dataclass(frozen=True)
class _Ending:
    """How the child ended: exit status (negative: signal), or None when it was cut off."""

    status: int | None
    stderr: str


def run_sandboxed(
    function: str,
    payload: Mapping[str, Any],
    *,
    limits: Limits,
    on_tick: Callable[[], None] | None = None,
    preload: tuple[str, str] | None = None,
) -> Any:
    """Call `function` ("package.module:name") with `payload` as keywords in a process of its own.

    `payload` and the result are what MessagePack can carry. Of all uploads, the function can read
    the file or folder at `payload["path"]` only, an absolute path; it writes in its working folder,
    which is gone afterwards. `on_tick` is called about every five seconds while waiting, to renew a
    lease. Raises a SandboxError; whatever `on_tick` raises ends the run and passes through. Where
    the process it is forked from has died, runs once more.

    `preload` is a cached function and its argument, for what calls share, such as a tokenizer. It
    is called outside the limits, before the fork: nothing of an upload may go there.
    """
    request = _request(function, payload)
    order = _order(payload, preload)
    for _ in range(_ATTEMPTS):
        try:
            return _run(request, limits, on_tick, order)
        except ZygoteLost as exc:
            logger.warning("%s did not run: %s", function, exc)
    raise _not_started()


def run_sandboxed_stream(
    function: str,
    payload: Mapping[str, Any],
    *,
    limits: Limits,
    on_tick: Callable[[], None] | None = None,
    preload: tuple[str, str] | None = None,
) -> Generator[Any]:
    """`run_sandboxed` for a generator: its items as they come, one at a time.

    The process waits while an item is being used, so neither side ever holds more than two. Close
    the iterator to end the process; it is closed by being dropped, too.
    """
    request = _request(function, payload)
    order = _order(payload, preload)
    for attempt in range(1, _ATTEMPTS + 1):
        begun = False
        try:
            for item in _stream(request, limits, on_tick, order):
                begun = True
                yield item
            return
        except ZygoteLost as exc:
            logger.warning("%s did not run to its end: %s", function, exc)
            if begun or attempt == _ATTEMPTS:
                raise _not_started() from exc


def _request(function: str, payload: Mapping[str, Any]) -> bytes:
    return bytes(msgpack.packb({"function": function, "payload": dict(payload)}))


def _order(payload: Mapping[str, Any], preload: tuple[str, str] | None) -> dict[str, Any]:
    """What the zygote is told: nothing that an upload has a say in."""
    paths = (payload.get("path"), preload and preload[1])
    reads = [path for path in paths if isinstance(path, str) and os.path.isabs(path)]
    return {"preload": preload, "reads": reads}


def _not_started() -> SandboxCrashed:
    return SandboxCrashed("its reader did not start. Try again.")


def _run(
    request: bytes,
    limits: Limits,
    on_tick: Callable[[], None] | None,
    order: dict[str, Any],
) -> Any:
    with (
        tempfile.TemporaryFile() as reply,
        _started(request, reply.fileno(), limits, order | {"stream": False}) as run,
    ):
        look = _Watch(run.scratch, limits, on_tick).look
        status = _wait(run.call, limits.wall_s, look)
        return _result(reply, run.ending(status), limits)


def _stream(
    request: bytes,
    limits: Limits,
    on_tick: Callable[[], None] | None,
    order: dict[str, Any],
) -> Iterator[Any]:
    ours, theirs = os.pipe()
    with (
        os.fdopen(ours, "rb", buffering=0) as pipe,
        os.fdopen(theirs, "wb") as end,
        _started(request, end.fileno(), limits, order | {"stream": True}) as run,
    ):
        end.close()  # so that the pipe ends when the child does
        look = _Watch(run.scratch, limits, on_tick).look
        items = Items(
            pipe,
            look,
            item_bytes=limits.output_bytes,
            all_bytes=limits.stream_bytes,
            item_s=limits.wall_s,
            all_s=limits.stream_wall_s or limits.wall_s * 30,
        )
        while (item := items.next()) is not None:
            yield item["item"]
        if items.timed_out:
            raise _failure(run.ending(None), limits)
        ending = run.ending(_wait(run.call, limits.wall_s, look))
        if ending.status != 0 or not items.complete:
            raise _failure(ending, limits)


@dataclass
class _Started:
    """A call under way, and where it says its last words."""

    call: Call
    stderr: IO[bytes]
    scratch: str

    def ending(self, status: int | None) -> _Ending:
        words = _tail(self.stderr)
        for lack in _LACKS:
            if lack in words and lack not in _warned:
                _warned.add(lack)
                logger.warning("files are read with less protection: %s", lack)
        return _Ending(status, words)


@contextmanager
def _started(
    request: bytes, reply: int, limits: Limits, order: dict[str, Any]
) -> Iterator[_Started]:
    """The call, begun; ended for good when the block is left."""
    with (
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as stderr,
        scratch_folder() as scratch,
    ):
        source.write(request)
        source.seek(0)
        order = order | {"scratch": scratch, "limits": asdict(limits)}
        call = Call(order, [source.fileno(), stderr.fileno(), reply])
        try:
            yield _Started(call, stderr, scratch)
        finally:
            call.end()


class _Watch:
    """What is to be done beside waiting: renew a lease, and see that the disk is not filled."""

    def __init__(self, scratch: str, limits: Limits, on_tick: Callable[[], None] | None) -> None:
        self.scratch, self.limits, self.on_tick = scratch, limits, on_tick
        self.next_tick = time.monotonic() + _TICK_S

    def look(self) -> None:
        """Raises SandboxOutputTooLarge, and what `on_tick` raises."""
        now = time.monotonic()
        if self.on_tick is not None and now >= self.next_tick:
            self.next_tick = now + _TICK_S
            self.on_tick()
        size_bytes, files = self.limits.scratch_bytes, self.limits.scratch_files
        if is_over(self.scratch, size_bytes=size_bytes, files=files):
            raise SandboxOutputTooLarge(size_bytes)


def _wait(call: Call, wall_s: float, look: Callable[[], None]) -> int | None:
    """The exit status, or None when time ran out."""
    deadline = time.monotonic() + wall_s
    while (left := deadline - time.monotonic()) > 0:
        status = call.wait(min(left, _LOOK_S))
        if status is not None:
            return status
        look()
    return None


def _tail(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - 4096))
    return stderr.read().decode(errors="replace")


def _result(reply: IO[bytes], ending: _Ending, limits: Limits) -> Any:
    if ending.status != 0:
        raise _failure(ending, limits)
    reply.seek(0)
    data = reply.read(limits.output_bytes + 1)
    if len(data) > limits.output_bytes:
        raise SandboxOutputTooLarge(limits.output_bytes)
    answer = unpack_reply(data)
    if "result" not in answer:
        raise no_result()
    return answer["result"]


def _failure(ending: _Ending, limits: Limits) -> SandboxError:
    status, words = ending.status, ending.stderr
    if status is None or status == -signal.SIGXCPU:
        return SandboxTimedOut(limits.wall_s)
    # Exit codes of sandbox_child; Rust's allocator aborts with these words; SIGKILL not from us
    # is the kernel's out-of-memory killer.
    if status == _EXIT_MEMORY or status == -signal.SIGKILL or "memory allocation of" in words:
        return SandboxOutOfMemory(limits.memory_bytes)
    if status == _EXIT_OUTPUT or status == -signal.SIGXFSZ:
        return SandboxOutputTooLarge(limits.output_bytes)
    return SandboxCrashed("its reader crashed. It may be damaged.")


# Said by sandbox_child.
_LACKS = (
    "no network namespace allowed here",
    "no Landlock allowed here",
    "no system call filter allowed here",
)
_warned: set[str] = set()
_EXIT_MEMORY = 70
_EXIT_OUTPUT = 71
