"""The real encoder and the real engine, started once a session by the tests that ask for them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from ragsite.stack.process import free_port, start, stop, wait_until
from tests import parts

KEY = "key-of-the-test-parts"


@pytest.fixture(scope="session")
def encoder_url() -> Iterator[str]:
    """Address of the one-machine encoder; its key is `tests.real_parts.KEY`."""
    with _served("encoder", "TEI_API_KEY") as url:
        yield url


@pytest.fixture(scope="session")
def engine_url() -> Iterator[str]:
    """Address of the one-machine engine, `/v1` included; its key is `tests.real_parts.KEY`."""
    with _served("engine", "OPENAI_API_KEY") as url:
        yield f"{url}/v1"


@contextmanager
def _served(part: str, key_name: str) -> Iterator[str]:
    port, log = free_port(), parts.state_dir / f"{part}.log"
    command = [sys.executable, "-m", f"ragsite.stack.{part}", "--port", str(port)]
    env = {**os.environ, key_name: KEY, "INFERENCE_THREADS": "1"}
    process = start(command, log=log, env=env)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _healthy(url), process, name=f"The {part}", log=log)
        yield url
    finally:
        stop(process, signal.SIGTERM)


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2, trust_env=False).is_success
    except httpx.TransportError:
        return False
