"""The whole one-machine stack, run once a session by the tests that ask for `stack`."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from ragsite.stack.catalogue import DATABASE
from ragsite.stack.demo import client
from ragsite.stack.demo.people import SLUG
from ragsite.stack.postgres import SUPERUSER, Postgres
from ragsite.stack.process import free_port, tail
from ragsite.stack.state import BASE_DIR, StateDir
from tests.stack.fakes import clean_environment
from tests.stack_supervisor import all_up_file

STARTING_S = 150.0
# How each part is told from the others by its command line.
_COMMANDS = {
    "encoder": "ragsite.stack.encoder",
    "engine": "ragsite.stack.engine",
    "worker": "celery",
    "site": "daphne",
    "redis": "redis-server",
    "postgres": "bin/postgres",
}
# The process that forks the sandboxes is a child of the worker, or of the site.
_ZYGOTE = "zygote_main"


@dataclass
class Stack:
    """A running stack with the demo's people and no documents.

    `settings` are given to every part, and to `manage.py`.
    """

    var: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    _supervisor: subprocess.Popen[bytes] | None = None
    _cookies: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def tenant_url(self) -> str:
        return f"{self.url}/t/{SLUG}"

    @property
    def environment(self) -> dict[str, str]:
        """For `manage.py`: finds the running stack, or the stopped one's data, by VAR_DIR."""
        return clean_environment(
            VAR_DIR=str(self.var),
            PORT=str(self.port),
            **{"INFERENCE_THREADS": "1", "LOG_LEVEL": "WARNING", **self.settings},
        )

    @property
    def addresses(self) -> dict[str, str]:
        """What reaches the parts: OPENAI_URL, OPENAI_API_KEY, REDIS_URL and the like."""
        return StateDir(self.var).running_environment() or {}

    @property
    def password(self) -> str:
        """The one that the demo's people share."""
        return str(json.loads((self.var / "demo.json").read_text())["password"])

    def email(self, who: str) -> str:
        """`who`: member, corpus-admin, manager or ops."""
        return f"{who}@demo.example"

    def cookie(self, who: str) -> str:
        """The `Cookie` header of one session per person; signing in is slow and rate-limited."""
        if who not in self._cookies:
            self._cookies[who] = client.sign_in(
                self.url, email=self.email(who), password=self.password
            )
        return self._cookies[who]

    def start(self, *, people: bool = True) -> None:
        """Start every part and return when all are up; `people`: with the demo's."""
        all_up_file(StateDir(self.var)).unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-m", "tests.stack_supervisor"],
                cwd=BASE_DIR,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        eventually(self._is_up, within_s=STARTING_S, what="the stack to come up")
        if people:
            self.manage("shell", "--verbosity=0", "--command", _MAKE_PEOPLE)

    def stop(self) -> None:
        """End every part; nothing is left running."""
        if self._supervisor is not None:
            self._supervisor.terminate()
            self._supervisor.wait(60)
            self._supervisor = None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """A cold machine with this stack's data, for the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def manage(self, *arguments: str, timeout_s: float = 90) -> str:
        """What `manage.py` prints; fails when it does."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=BASE_DIR,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def process(self, part: str) -> psutil.Process:
        """The process of a part that runs now."""
        assert self._supervisor is not None
        for child in psutil.Process(self._supervisor.pid).children():
            with contextlib.suppress(psutil.Error):
                if any(_COMMANDS[part] in word for word in child.cmdline()):
                    return child
        raise LookupError(f"{part} does not run")

    def kill(self, part: str) -> Callable[[], bool]:
        """SIGKILL a part; the result says whether another has taken its place."""
        killed = self.process(part)
        killed.send_signal(signal.SIGKILL)
        return lambda: self._runs_anew(part, killed.pid)

    def kill_with_children(self, part: str) -> Callable[[], bool]:
        """SIGKILL a part and all it has started, at once."""
        killed = self.process(part)
        _kill_all([killed, *killed.children(recursive=True)])
        return lambda: self._runs_anew(part, killed.pid)

    def kill_zygote(self) -> Callable[[], bool]:
        """SIGKILL the process that the worker's sandboxes are forked from, with the sandboxes.

        It comes back with the next file that is read. Raises LookupError where none was yet.
        """
        for child in self.process("worker").children(recursive=True):
            if any(_ZYGOTE in word for word in child.cmdline()):
                _kill_all([child, *child.children(recursive=True)])
                return lambda: True
        raise LookupError("no file has been read yet")

    def kill_everything(self) -> None:
        """SIGKILL the supervisor and every part: the machine has lost its power."""
        assert self._supervisor is not None
        supervisor = psutil.Process(self._supervisor.pid)
        _kill_all([supervisor, *supervisor.children(recursive=True)])
        self._supervisor.wait(60)
        self._supervisor = None

    def _runs_anew(self, part: str, pid: int) -> bool:
        with contextlib.suppress(LookupError):
            return self.process(part).pid != pid and self.part_answers(part)
        return False

    def part_answers(self, part: str) -> bool:
        """Whether a model server says it is well; other parts are taken at their word."""
        variable = {"encoder": "TEI", "engine": "OPENAI"}.get(part)
        if variable is None:
            return True
        with contextlib.suppress(httpx.TransportError):
            return self._get_from(variable, "/health").is_success
        return False

    def busy_slots(self) -> int:
        """Answers that the engine is writing now."""
        slots: list[dict[str, Any]] = self._get_from("OPENAI", "/slots").json()
        return sum(bool(slot["is_processing"]) for slot in slots)

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows past every lock: what is really in the database."""
        server = Postgres(self.var / "postgres", log=StateDir(self.var).log("postgres"))
        with psycopg.connect(server.url(SUPERUSER, DATABASE), autocommit=True) as connection:
            return list(connection.execute(query, parameters))

    def log_of(self, part: str) -> str:
        """All that a part has written to its log."""
        return StateDir(self.var).log(part).read_text("utf-8", "replace")

    @property
    def _log(self) -> Path:
        return self.var / "supervisor.log"

    def _is_up(self) -> bool:
        assert self._supervisor is not None
        assert self._supervisor.poll() is None, f"the stack ended:\n{tail(self._log, 40)}"
        return all_up_file(StateDir(self.var)).exists()

    def _get_from(self, variable: str, path: str) -> httpx.Response:
        addresses = self.addresses
        base = addresses[f"{variable}_URL"].removesuffix("/v1")
        key = addresses[f"{variable}_API_KEY"]
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.get(base + path, headers=headers, timeout=5, trust_env=False)


def _kill_all(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=10)


_MAKE_PEOPLE = "from ragsite.stack.demo.people import ensure_demo; ensure_demo()"


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Every part of the system, for all tests of a session.

    Without caches: tests ask the same again to see what another hop does with it.
    """
    with a_stack(RESPONSE_CACHE_TTL_S="0", EMBEDDING_CACHE_TTL_S="0") as running:
        yield running


@contextmanager
def a_stack(*, people: bool = True, **settings: str) -> Iterator[Stack]:
    """A stack of one's own, with settings of its own; nothing of it is left after the block."""
    with tempfile.TemporaryDirectory(prefix="ragsite-stack-", ignore_cleanup_errors=True) as folder:
        var = Path(folder)
        var.chmod(0o755)  # PostgreSQL passes through it, as another user when we are root
        running = Stack(var, settings)
        try:
            running.start(people=people)
            yield running
        finally:
            running.stop()


def eventually(
    condition: Callable[[], Any], *, within_s: float, what: str, every_s: float = 0.1
) -> Any:
    """The condition's first true value; fails when it has none in time."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {within_s:.0f} s in vain for {what}"
        time.sleep(every_s)
    return value
