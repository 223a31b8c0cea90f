"""The state directory: where things are kept, whose it is now, and how to reach the running stack.

One lock on the directory says whether a stack runs over it. The kernel drops the lock with its
holder, so a stack that was killed leaves nothing that looks alive.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent.parent
LOG_LIMIT_BYTES = 10 * 1024 * 1024


class StateInUse(RuntimeError):
    """Another stack, or a command that started parts for itself, holds the state directory."""


@dataclass(frozen=True)
class StateDir:
    """Paths under VAR_DIR."""

    root: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> StateDir:
        return cls(Path(environment.get("VAR_DIR") or BASE_DIR / "var").resolve())

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def running_file(self) -> Path:
        """URLs and keys of the running stack; only its owner may read it."""
        return self.run / "stack.json"

    @property
    def demo_file(self) -> Path:
        """The demo's password; there once the demo tenant has been made."""
        return self.root / "demo.json"

    def log(self, name: str) -> Path:
        return self.root / "log" / f"{name}.log"

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the directory as the one stack over it. Raises StateInUse at once when taken."""
        self.run.mkdir(parents=True, exist_ok=True)
        self.run.chmod(0o700)
        with self._lock_file().open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as exc:
                lock.seek(0)
                raise StateInUse(
                    f"{self.root} is in use by process {lock.read().strip() or 'unknown'}. "
                    "Stop that one, or set VAR_DIR to another directory."
                ) from exc
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            try:
                yield
            finally:
                self.running_file.unlink(missing_ok=True)

    def held(self) -> bool:
        """Whether some process holds the directory now."""
        try:
            with self._lock_file().open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def announce(self, environment: Mapping[str, str]) -> None:
        """Tell commands how to reach this stack; the holder calls it once its parts answer."""
        fresh = self.running_file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps({"pid": os.getpid(), "environment": dict(environment)}))
        fresh.rename(self.running_file)

    def running_environment(self) -> dict[str, str] | None:
        """The environment that reaches the running stack; None when none runs, or not yet."""
        if not self.held():
            return None
        try:
            content = json.loads(self.running_file.read_text())
        except FileNotFoundError:
            return None
        return {str(name): str(value) for name, value in content["environment"].items()}

    def put_long_logs_aside(self) -> None:
        """Start logs over LOG_LIMIT_BYTES afresh; one older one of each is kept."""
        for log in self.log("any").parent.glob("*.log"):
            if log.stat().st_size > LOG_LIMIT_BYTES:
                log.rename(log.with_suffix(".log.old"))

    def _lock_file(self) -> Path:
        return self.run / "lock"
