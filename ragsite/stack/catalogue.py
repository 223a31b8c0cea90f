"""Which parts a stack has, given what the environment already names, and how each is run.

PostgreSQL, Redis, the encoder and the engine are started only where the environment names no
other; the addresses and keys of those that are go into the environment of the site and the worker.
"""

from __future__ import annotations

import os
import secrets
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ragsite.stack.engine import ALIAS
from ragsite.stack.part import Part
from ragsite.stack.postgres import APP_ROLE, OWNER_ROLE, Postgres
from ragsite.stack.process import free_port
from ragsite.stack.redis import Redis
from ragsite.stack.state import BASE_DIR, StateDir

DATABASE = "ragsite"
EVERYTHING = ("postgres", "redis", "encoder", "engine", "schema", "worker", "site")
# Where one of these is set, the part is someone else's.
_CONFIGURED_BY = {
    "postgres": ("DATABASE_URL",),
    "redis": ("REDIS_URL",),
    "encoder": ("TEI_URL",),
    "engine": ("TGI_URL", "OPENAI_URL"),
}
# What a model of 135M parameters answers best from; what the environment names goes first.
_SUITS_ENGINE = {
    "GENERATION_PROMPT": "extractive",
    "GENERATION_PASSAGES": "2",
    "GENERATION_MAX_TOKENS": "160",
}
# One allocation arena and one numeric thread: halves the idle memory of site and worker.
_LEAN = {"MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass
class Plan:
    """Parts in an order in which each comes after what it needs, and what reaches them."""

    state: StateDir
    parts: list[Part] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)  # in addition to ours

    def full_environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "VAR_DIR": str(self.state.root), **self.environment, **more}

    def has(self, name: str) -> bool:
        return any(part.name == name for part in self.parts)

    def needs(self, *names: str) -> tuple[str, ...]:
        return tuple(name for name in names if self.has(name))


def plan_stack(
    state: StateDir, environment: Mapping[str, str], wanted: Iterable[str] = EVERYTHING
) -> Plan:
    """The parts among `wanted` that `environment` does not name already."""
    plan = Plan(state)
    for name in EVERYTHING:
        if name in wanted and not is_configured(name, environment):
            _ADD[name](plan)
    return plan


def is_configured(name: str, environment: Mapping[str, str]) -> bool:
    """Whether `environment` names a server to use instead of the part `name`."""
    if name == "encoder" and environment.get("EMBEDDER", "tei") != "tei":
        return True
    return any(
        environment.get(variable) or environment.get(f"{variable}_FILE")
        for variable in _CONFIGURED_BY.get(name, ())
    )


def _add_postgres(plan: Plan) -> None:
    server = Postgres(plan.state.root / "postgres", log=plan.state.log("postgres"))
    plan.parts.append(server.part(DATABASE))
    plan.environment["DATABASE_URL"] = server.url(APP_ROLE, DATABASE)
    plan.environment["DATABASE_OWNER_URL"] = server.url(OWNER_ROLE, DATABASE)


def _add_redis(plan: Plan) -> None:
    server = Redis(log=plan.state.log("redis"), run_dir=plan.state.run)
    plan.parts.append(server.part())
    plan.environment["REDIS_URL"] = server.url


def _add_encoder(plan: Plan) -> None:
    plan.environment["TEI_URL"] = _add_model_server(plan, "encoder", "TEI_API_KEY")


def _add_engine(plan: Plan) -> None:
    plan.environment["OPENAI_URL"] = _add_model_server(plan, "engine", "OPENAI_API_KEY") + "/v1"
    plan.environment["OPENAI_MODEL"] = ALIAS
    for name, value in _SUITS_ENGINE.items():
        if not os.environ.get(name):
            plan.environment[name] = value


def _add_model_server(plan: Plan, name: str, key_variable: str) -> str:
    port, key = free_port(), secrets.token_urlsafe(24)
    url = f"http://127.0.0.1:{port}"
    plan.environment[key_variable] = key
    plan.parts.append(
        Part(
            name=name,
            command=[sys.executable, "-m", f"ragsite.stack.{name}", "--port", str(port)],
            log=plan.state.log(name),
            ready=lambda: http_answers(f"{url}/health", key=key),
            # Its own key and nothing of the database: it runs native code on strangers' text.
            env={**os.environ, key_variable: key, "MALLOC_ARENA_MAX": "2"},
            timeout_s=180.0,
        )
    )
    return url


def _add_schema(plan: Plan) -> None:
    plan.parts.append(
        Part(
            name="schema",
            command=[sys.executable, str(BASE_DIR / "manage.py"), "migrate", "--no-input"],
            log=plan.state.log("schema"),
            ready=lambda: True,
            needs=plan.needs("postgres"),
            env=plan.full_environment(),
            timeout_s=600.0,
            one_shot=True,
        )
    )


def _add_worker(plan: Plan) -> None:
    plan.parts.append(worker_part(plan))


def worker_part(plan: Plan, name: str = "worker", options: Sequence[str] = ()) -> Part:
    """A worker process; several may serve the same queues, each under a name of its own."""
    log = plan.state.log(name)
    said = _Said(log, b" ready.")
    return Part(
        name=name,
        command=[
            *(sys.executable, "-m", "celery", "--app=worker.celery", "worker"),
            *("--without-gossip", "--without-mingle", "--loglevel=INFO", f"--hostname={name}@%h"),
            *options,
        ],
        log=log,
        ready=said.ready,
        prepare=said.forget,
        needs=plan.needs("schema", "redis"),
        env=plan.full_environment(**_LEAN),
    )


def _add_site(plan: Plan) -> None:
    port = os.environ.get("PORT") or "8000"
    plan.parts.append(
        Part(
            name="site",
            command=[
                *(sys.executable, "-m", "daphne", "--bind=127.0.0.1", f"--port={port}"),
                *("--verbosity=0", "--no-server-name", "ragsite.asgi:application"),
            ],
            log=plan.state.log("site"),
            ready=lambda: http_answers(f"http://127.0.0.1:{port}/accounts/login/"),
            needs=plan.needs("schema", "redis"),
            env=plan.full_environment(**_LEAN),
        )
    )


def demo_step(plan: Plan) -> Part:
    """Make the demo tenant and have a running worker ingest the documentation; asks nothing."""
    return Part(
        name="demo",
        command=[sys.executable, str(BASE_DIR / "manage.py"), "demo"],
        log=plan.state.log("demo"),
        ready=lambda: True,
        needs=plan.needs("schema", "redis", "worker", "encoder"),
        env=plan.full_environment(),
        timeout_s=900.0,
        one_shot=True,
    )


_ADD = {
    "postgres": _add_postgres,
    "redis": _add_redis,
    "encoder": _add_encoder,
    "engine": _add_engine,
    "schema": _add_schema,
    "worker": _add_worker,
    "site": _add_site,
}


class _Said:
    """Whether a process has written some words to its log since it was last started."""

    def __init__(self, log: os.PathLike[str], words: bytes) -> None:
        self._log = log
        self._words = words
        self._from = 0

    def forget(self) -> None:
        self._from = os.path.getsize(self._log) if os.path.exists(self._log) else 0

    def ready(self) -> bool:
        with open(self._log, "rb") as file:
            file.seek(self._from)
            return self._words in file.read()


def http_answers(url: str, *, key: str = "") -> bool:
    """Whether a loopback server answers `url` with success."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})  # noqa: S310
    # Without proxies: these addresses are on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
