"""Running a function on hostile input in a process of its own, with limits.

SandboxError
├── SandboxTimedOut        wall or CPU time ran out
├── SandboxOutOfMemory     memory ran out
├── SandboxOutputTooLarge  the result, or a file it wrote, was larger than allowed
├── SandboxCrashed         the process died or failed in a way nobody foresaw
└── SandboxRefused         the function itself declined, with a code and words of its own

The process is forked from a warm, clean one (`worker.zygote`) for this call alone. It gets an empty
environment, a scratch folder, limits on memory, CPU, file size and open files, no network, and
dies with the parent. What passes in and out is MessagePack in two
unnamed files: nothing it can say is executed, and a flood stops at the file-size limit.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
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

    wall_s: float
    memory_bytes: int  # address space
    output_bytes: int = 256 * _MIB  # the result; also any one file it writes
    open_files: int = 256


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

    `payload` and the result are what MessagePack can carry. `on_tick` is called about every five
    seconds while waiting, to renew a lease. Raises a SandboxError; whatever `on_tick` raises ends
    the run and passes through. Where the process it is forked from has died, runs once more.

    `preload` is a cached function and its argument, for what calls share, such as a tokenizer. It
    is called outside the limits, before the fork: nothing of an upload may go there.
    """
    request = msgpack.packb({"function": function, "payload": dict(payload)})
    for _ in range(_ATTEMPTS):
        try:
            return _run(function, request, limits, on_tick, preload)
        except ZygoteLost as exc:
            logger.warning("%s did not run: %s", function, exc)
    raise SandboxCrashed("The file could not be processed: its reader did not start. Try again.")


def _run(
    function: str,
    request: bytes,
    limits: Limits,
    on_tick: Callable[[], None] | None,
    preload: tuple[str, str] | None,
) -> Any:
    with (
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as reply,
        tempfile.TemporaryFile() as stderr,
        tempfile.TemporaryDirectory(prefix="ragsite-sandbox-") as scratch,
    ):
        source.write(request)
        source.seek(0)
        order = {"scratch": scratch, "limits": asdict(limits), "preload": preload}
        call = Call(order, [file.fileno() for file in (source, stderr, reply)])
        try:
            status = _wait(call, limits.wall_s, on_tick)
        finally:
            call.end()
        ending = _Ending(status, _tail(stderr))
        if _NO_NAMESPACE in ending.stderr:
            logger.warning("%s ran with the network in reach: no namespace allowed here", function)
        return _result(reply, ending, limits)


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
    try:
        answer = msgpack.unpackb(reply.read(), strict_map_key=False)
        if "refused" in answer:
            raise SandboxRefused(str(answer["refused"]), str(answer["message"]))
        return answer["result"]
    except (ValueError, KeyError, TypeError) as exc:
        raise SandboxCrashed("The file could not be processed: the reader gave no result.") from exc


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
        return SandboxOutputTooLarge(
            f"The file holds more than {limits.output_bytes // _MIB} MiB of content. "
            "Split it into smaller files."
        )
    return SandboxCrashed("The file could not be processed: its reader crashed. It may be damaged.")


# Said by sandbox_child.
_NO_NAMESPACE = "no network namespace"
_EXIT_MEMORY = 70
_EXIT_OUTPUT = 71
