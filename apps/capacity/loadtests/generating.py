"""The generator's process: started, listened to, stopped, and never believed without a look.

It is another program: it may print garbage, say nothing, or never end. What it says is bounded and
checked; it gets the target's key and nothing else of this process' environment.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from django.conf import settings
from pydantic import ValidationError

from apps.capacity.errors import LoadTestError
from apps.capacity.load.types import KEY_VARIABLE, Event, Job

COMMAND = (sys.executable, "-m", "apps.capacity.load")
TICK_S = 0.25  # how often whoever listens may look at something else
STOP_S = 5.0  # from a request to end, until it is killed; it ends within 1 s
LINE_BYTES_MAX = 4 * 1024 * 1024
OUTPUT_BYTES_MAX = 64 * 1024 * 1024  # a line a second is some 200 bytes
_STARTING_S = 60.0  # until the first request, and to sum up in the end
_CHUNK = 64 * 1024
_COMPLAINT_CHARS = 300
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR")


class GeneratorFailed(LoadTestError):
    """It died, went silent, or said what no generator says. `code` says which."""

    retryable = True

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Generator:
    """One process for one point. Leaving the block ends it, whatever it does.

    `folder` receives the records' file.
    """

    def __init__(self, job: Job, *, folder: Path, key: str = "") -> None:
        self._job = job
        self._folder = folder
        self._key = key
        self.began = time.monotonic()
        self._until = self.began + longest_s(job)
        self._heard = 0
        self._complaints: deque[bytes] = deque(maxlen=4)

    def __enter__(self) -> Generator:
        # A file and no pipe: a trace is megabytes, and a process that reads none of it would hold
        # up whoever writes.
        with tempfile.TemporaryFile(dir=self._folder) as job:
            job.write(self._job.model_dump_json().encode() + b"\n")
            job.seek(0)
            self._process = subprocess.Popen(  # noqa: S603 - the site's own program
                [*COMMAND, "--records", str(self._folder)],
                stdin=job,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(self._key),
                cwd=settings.BASE_DIR,
                # Ctrl-C is for the command, which then asks for what was measured so far.
                start_new_session=True,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def stop(self) -> None:
        """Ask it to end: what it has measured comes as its last event."""
        self._process.terminate()
        self._until = min(self._until, time.monotonic() + STOP_S)

    @property
    def complaint(self) -> str:
        """The last line of what it wrote to its log, for ours."""
        text = b"".join(self._complaints).decode(errors="replace").strip()
        last = text.rpartition("\n")[2]
        return "".join(char for char in last if char.isprintable())[:_COMPLAINT_CHARS]

    def events(self) -> Iterator[Event | None]:
        """What it says, up to `done` or `failed`; None every TICK_S. Raises GeneratorFailed."""
        pending = b""
        for chunk in self._chunks():
            if chunk is None:
                yield None
                continue
            *lines, pending = (pending + chunk).split(b"\n")
            if len(pending) > LINE_BYTES_MAX:
                raise GeneratorFailed("generator_garbage", "The generator's line has no end.")
            for line in lines:
                event = _parse(line)
                yield event
                if event.event != "progress":
                    return
        raise GeneratorFailed("generator_died", "The generator ended without a result.")

    def _chunks(self) -> Iterator[bytes | None]:
        """Output until its end; None when there was none for a tick."""
        output, complaints = self._process.stdout, self._process.stderr
        if output is None or complaints is None:
            raise GeneratorFailed("generator_died", "The generator has no output.")
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(complaints, selectors.EVENT_READ)
            told = time.monotonic()
            while True:
                for ready, _ in selector.select(TICK_S):
                    chunk = os.read(ready.fd, _CHUNK)
                    if ready.fileobj is complaints:
                        self._complaints.append(chunk)
                        if not chunk:
                            selector.unregister(complaints)
                    elif not chunk:
                        return
                    else:
                        self._count(chunk)
                        yield chunk
                if time.monotonic() > self._until:
                    raise GeneratorFailed("generator_hung", "The generator did not end in time.")
                if time.monotonic() - told >= TICK_S:
                    told = time.monotonic()
                    yield None

    def _count(self, chunk: bytes) -> None:
        self._heard += len(chunk)
        if self._heard > OUTPUT_BYTES_MAX:
            raise GeneratorFailed("generator_flood", "The generator says far too much.")


def longest_s(job: Job) -> float:
    """How long a point may take, from the start of the process: then it hangs."""
    bounds = job.bounds
    # Two requests at a time, and two more to get to know the server.
    warming_s = (2 + (bounds.warmup_requests + 1) // 2) * bounds.request_timeout_s
    return warming_s + bounds.duration_s + bounds.drain_s + _STARTING_S


def _parse(line: bytes) -> Event:
    try:
        return Event.model_validate_json(line)
    except ValidationError:
        words = "The generator said something that is no event."
        raise GeneratorFailed("generator_garbage", words) from None


def _environment(key: str) -> dict[str, str]:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # Not for a forgotten thread of a numerical library to take a core of the server's.
    environment["OMP_NUM_THREADS"] = environment["OPENBLAS_NUM_THREADS"] = "1"
    return {**environment, KEY_VARIABLE: key} if key else environment
