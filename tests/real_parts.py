"""The real encoder and the real engine, started once a session by the tests that ask for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from ragsite.stack.part import Part, start_and_wait
from ragsite.stack.process import free_port
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
def _served(name: str, key_name: str) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    part = Part(
        name=name,
        command=[sys.executable, "-m", f"ragsite.stack.{name}", "--port", str(port)],
        log=parts.state_dir / f"{name}.log",
        ready=lambda: _healthy(url),
        env={**os.environ, key_name: KEY, "INFERENCE_THREADS": "1", "MALLOC_ARENA_MAX": "2"},
    )
    running = start_and_wait(part)
    try:
        yield url
    finally:
        part.stop(running)


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2, trust_env=False).is_success
    except httpx.TransportError:
        return False
