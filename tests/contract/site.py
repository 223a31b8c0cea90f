"""The site as programs reach it: a real Daphne on loopback, before doubles of model servers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import pytest
import redis
from django.conf import settings
from django.db import connection

from ragsite.stack.process import free_port
from ragsite.stack.state import BASE_DIR
from tests.contract.tei import TeiDouble
from tests.contract.tgi import Behaviour, TgiDouble

_STARTING_S = 60.0


@dataclass(frozen=True)
class Site:
    """A running site."""

    port: int
    pid: int
    tgi: TgiDouble
    tei: TeiDouble
    environment: dict[str, str] = field(repr=False)  # of the process, for another like it

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """What clients are given as their base URL."""
        return f"{self.root}/v1"


@contextmanager
def a_site(**environment: str) -> Iterator[Site]:
    """A site of its own process, on the tests' own database and Redis."""
    with TgiDouble() as tgi, TeiDouble() as tei, TeiDouble(kind="reranker") as reranker:
        port = free_port()
        variables = {
            **os.environ,
            "PORT": str(port),
            "TGI_URL": tgi.url,
            "OPENAI_URL": "",
            "EMBEDDER": "tei",
            "TEI_URL": tei.url,
            "RERANKER": "tei",
            "TEI_RERANK_URL": reranker.url,
            "LOG_LEVEL": "WARNING",
            **environment,
        }
        command = [sys.executable, "-m", "daphne", "--bind=127.0.0.1", f"--port={port}"]
        process = subprocess.Popen(
            [*command, "ragsite.asgi:application"], cwd=BASE_DIR, env=variables
        )
        try:
            _wait_for(process, f"http://127.0.0.1:{port}/v1/openapi.json")
            yield Site(port, process.pid, tgi, tei, variables)
        finally:
            process.terminate()
            process.wait(20)


def _wait_for(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _STARTING_S
    while True:
        assert process.poll() is None, "the site ended"
        assert time.monotonic() < deadline, "the site does not answer"
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url, trust_env=False).is_success:
                return
        time.sleep(0.1)


@pytest.fixture(scope="module")
def site(django_db_setup: None) -> Iterator[Site]:
    """One site for a module's tests."""
    with a_site() as running:
        yield running


@pytest.fixture(autouse=True)
def _quiet_doubles(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test begins with doubles that answer well, and ends when the site has come to rest."""
    if "site" not in request.fixturenames:
        yield
        return
    running: Site = request.getfixturevalue("site")
    # Before this one, so that its tables are emptied after it: not while the site still books.
    request.getfixturevalue("transactional_db")
    running.tgi.default = Behaviour()
    running.tgi.counts.clear()
    running.tgi.requests.clear()
    with redis.Redis.from_url(settings.REDIS_URL) as store:
        store.flushdb()  # breakers that a test before has opened
    yield
    _wait_for_rest()


def _wait_for_rest(looks: int = 4) -> None:
    """Nothing reserved and no statement under way, several times in a row."""
    deadline, at_rest = time.monotonic() + 20, 0
    while at_rest < looks:
        assert time.monotonic() < deadline, "the site does not come to rest"
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT EXISTS (SELECT FROM gateway_reservation) OR EXISTS (SELECT FROM"
                " pg_stat_activity WHERE datname = current_database() AND state <> 'idle'"
                " AND pid <> pg_backend_pid())"
            )
            (busy,) = cursor.fetchone()
        at_rest = 0 if busy else at_rest + 1
        time.sleep(0.03)
