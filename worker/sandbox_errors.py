"""What comes of a sandboxed call that gives no result.

SandboxError
├── SandboxTimedOut        wall or CPU time ran out
├── SandboxOutOfMemory     memory ran out
├── SandboxOutputTooLarge  the result, or what it wrote, was larger than allowed
├── SandboxCrashed         the process died or failed in a way nobody foresaw
└── SandboxRefused         the function itself declined, with a code and words of its own
"""

from __future__ import annotations

_MIB = 1024 * 1024


class SandboxError(Exception):
    """The sandboxed function gave no result. `str()` is fit for the person who sent the file."""

    code = "sandbox_error"
    retryable = False


class SandboxTimedOut(SandboxError):
    code = "timed_out"

    def __init__(self, wall_s: float) -> None:
        super().__init__(
            f"Processing the file took longer than {wall_s:.0f} s. "
            "Split it into smaller files, or have the limit raised."
        )


class SandboxOutOfMemory(SandboxError):
    code = "out_of_memory"

    def __init__(self, memory_bytes: int) -> None:
        super().__init__(
            f"Processing the file needed more than {memory_bytes // _MIB} MiB of memory. "
            "Split it into smaller files, or have the limit raised."
        )


class SandboxOutputTooLarge(SandboxError):
    code = "output_too_large"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"The file holds more than {limit_bytes // _MIB} MiB of content. "
            "Split it into smaller files."
        )


class SandboxCrashed(SandboxError):
    code = "crashed"

    def __init__(self, what: str) -> None:
        super().__init__(f"The file could not be processed: {what}")


class SandboxRefused(SandboxError):
    """The function raised an error with a `code`: that code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
