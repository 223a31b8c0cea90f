"""Engines of this machine with other settings than the site's, one at a time, on loopback."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from apps.capacity.errors import TargetDown

START_S = 60.0  # it loads in under 2 s on an idle machine
_STOP_S = 10.0


@dataclass(frozen=True)
class Engine:
    """A running engine: its address without the `/v1`, and its key."""

    url: str
    key: str = field(repr=False)

    def client(self, *, timeout_s: float = 60.0) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=False)


@contextmanager
def engine(*options: str, log: Path) -> Iterator[Engine]:
    """`python -m ragsite.stack.engine` with `options` for the block; raises TargetDown."""
    port, key = _free_port(), secrets.token_urlsafe(24)
    command = [sys.executable, "-m", "ragsite.stack.engine", "--port", str(port), *options]
    with log.open("ab") as file:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, numbers and words of ours
            command,
            stdout=file,
            stderr=file,
            env={**os.environ, "OPENAI_API_KEY": key, "MALLOC_ARENA_MAX": "2"},
            start_new_session=True,  # a Ctrl-C is for the command, which ends it below
        )
    try:
        running = Engine(f"http://127.0.0.1:{port}", key)
        _wait(running, process, log)
        yield running
    finally:
        _end(process)


def _wait(running: Engine, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    with running.client(timeout_s=5.0) as client:
        while time.monotonic() < until and process.poll() is None:
            try:
                if client.get("/health").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
    raise TargetDown(f"The engine did not start; what it said is in {log}.")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
