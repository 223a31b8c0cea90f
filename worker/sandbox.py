"""Running a function on hostile input in a process of its own, with limits.

SandboxError
├── SandboxTimedOut        wall or CPU time ran out
├── SandboxOutOfMemory     memory ran out
├── SandboxOutputTooLarge  the result, or a file it wrote, was larger than allowed
├── SandboxCrashed         the process died or failed in a way nobody foresaw
└── SandboxRefused         the function itself declined, with a code and words of its own

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
import select
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import IO, Any

import msgpack  # type: ignore[import-untyped]

from worker.zygote import Call, ZygoteLost

logger = logging.getLogger(__name__)

_TICK_S = 5.0
_ATTEMPTS = 2
_MIB = 1024 * 1024


class SandboxError(Exception):
    """The sandboxed function gave no result. `str()` is fit for the person who sent the file."""

    code = "sandbox_error"
    retryable = False


class SandboxTimedOut(SandboxError):
    code = "timed_out"


class SandboxOutOfMemory(SandboxError):
    code = "out_of_memory"


class SandboxOutputTooLarge(SandboxError):
    code = "output_too_large"


class SandboxCrashed(SandboxError):
    code = "crashed"


class SandboxRefused(SandboxError):
    """The function raised an error with a `code`: that code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Limits:
    """What one run may use."""

    wall_s: float  # for the result; of a stream, for each of its items
    memory_bytes: int  # address space
    output_bytes: int = 256 * _MIB  # the result or one item; also any one file it writes
    open_files: int = 256
    cpu_s: float = 0.0  # 0: what two threads can use in `wall_s`
    stream_bytes: int = 2048 * _MIB  # all items of a stream together
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
) -> Iterator[Any]:
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
    return SandboxCrashed("The file could not be processed: its reader did not start. Try again.")


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
        status = _wait(run.call, limits.wall_s, on_tick)
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
        items = _Items(pipe, limits, on_tick)
        while (item := items.next()) is not None:
            yield item["item"]
        if items.timed_out:
            raise _failure(run.ending(None), limits)
        ending = run.ending(_wait(run.call, limits.wall_s, on_tick))
        if ending.status != 0 or not items.complete:
            raise _failure(ending, limits)


@dataclass
class _Started:
    """A call under way, and where it says its last words."""

    call: Call
    stderr: IO[bytes]

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
        tempfile.TemporaryDirectory(prefix="ragsite-sandbox-") as scratch,
    ):
        source.write(request)
        source.seek(0)
        order = order | {"scratch": scratch, "limits": asdict(limits)}
        call = Call(order, [source.fileno(), stderr.fileno(), reply])
        try:
            yield _Started(call, stderr)
        finally:
            call.end()


class _Items:
    """Length-prefixed items off a pipe, none longer than allowed, none waited for too long."""

    def __init__(self, pipe: IO[bytes], limits: Limits, on_tick: Callable[[], None] | None) -> None:
        self.pipe, self.limits, self.on_tick = pipe, limits, on_tick
        self.timed_out = False
        self.complete = False
        self.left_bytes = limits.stream_bytes
        self.poll = select.poll()
        self.poll.register(pipe, select.POLLIN)

    def next(self) -> dict[str, Any] | None:
        """The next item; None at the end, whichever way it came."""
        deadline = time.monotonic() + self.limits.wall_s
        head = self._read(4, deadline)
        size = int.from_bytes(head, "big")
        if len(head) < 4:
            return None
        if size > self.limits.output_bytes:
            raise _too_large(self.limits.output_bytes)
        self.left_bytes -= size
        if self.left_bytes < 0:
            raise _too_large(self.limits.stream_bytes)
        data = self._read(size, deadline)
        if len(data) < size:
            return None
        answer = _unpacked(data)
        self.complete = "end" in answer
        return answer if "item" in answer else None

    def _read(self, size: int, deadline: float) -> bytes:
        """`size` bytes, or as many as came before the end or the deadline."""
        parts: list[bytes] = []
        left = size
        while left and not self.timed_out:
            wait_s = min(deadline - time.monotonic(), _TICK_S)
            if wait_s <= 0:
                self.timed_out = True
            elif not self.poll.poll(wait_s * 1000):
                if self.on_tick is not None:
                    self.on_tick()
            else:
                data = self.pipe.read(min(left, _MIB)) or b""
                parts.append(data)
                left -= len(data)
                if not data:
                    break
        return b"".join(parts)


def _wait(call: Call, wall_s: float, on_tick: Callable[[], None] | None) -> int | None:
    """The exit status, or None when time ran out."""
    deadline = time.monotonic() + wall_s
    while (left := deadline - time.monotonic()) > 0:
        status = call.wait(min(left, _TICK_S))
        if status is not None:
            return status
        if on_tick is not None:
            on_tick()
    return None


def _tail(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - 4096))
    return stderr.read().decode(errors="replace")


def _result(reply: IO[bytes], ending: _Ending, limits: Limits) -> Any:
    if ending.status != 0:
        raise _failure(ending, limits)
    reply.seek(0)
    answer = _unpacked(reply.read())
    if "result" not in answer:
        raise _no_result()
    return answer["result"]


def _unpacked(data: bytes) -> dict[str, Any]:
    """What the child said. Raises SandboxRefused where that is a refusal."""
    try:
        answer = dict(msgpack.unpackb(data, strict_map_key=False))
    except (ValueError, TypeError) as exc:
        raise _no_result() from exc
    if "refused" in answer:
        raise SandboxRefused(str(answer["refused"]), str(answer.get("message", "")))
    return answer


def _no_result() -> SandboxCrashed:
    return SandboxCrashed("The file could not be processed: the reader gave no result.")


def _failure(ending: _Ending, limits: Limits) -> SandboxError:
    status, words = ending.status, ending.stderr
    if status is None or status == -signal.SIGXCPU:
        return SandboxTimedOut(
            f"Processing the file took longer than {limits.wall_s:.0f} s. "
            "Split it into smaller files, or have the limit raised."
        )
    # Exit codes of sandbox_child; Rust's allocator aborts with these words; SIGKILL not from us
    # is the kernel's out-of-memory killer.
    if status == _EXIT_MEMORY or status == -signal.SIGKILL or "memory allocation of" in words:
        return SandboxOutOfMemory(
            f"Processing the file needed more than {limits.memory_bytes // _MIB} MiB of memory. "
            "Split it into smaller files, or have the limit raised."
        )
    if status == _EXIT_OUTPUT or status == -signal.SIGXFSZ:
        return _too_large(limits.output_bytes)
    return SandboxCrashed("The file could not be processed: its reader crashed. It may be damaged.")


def _too_large(limit_bytes: int) -> SandboxOutputTooLarge:
    return SandboxOutputTooLarge(
        f"The file holds more than {limit_bytes // _MIB} MiB of content. "
        "Split it into smaller files."
    )


# Said by sandbox_child.
_LACKS = (
    "no network namespace allowed here",
    "no Landlock allowed here",
    "no system call filter allowed here",
)
_warned: set[str] = set()
_EXIT_MEMORY = 70
_EXIT_OUTPUT = 71
