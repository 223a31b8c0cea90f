"""What is measured: the site with its documentation to ask, a model server, and people."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import psutil

from ragsite.stack.catalogue import http_answers
from ragsite.stack.parts_for_command import started
from ragsite.stack.process import free_port
from ragsite.stack.state import BASE_DIR
from tests.bench.chat.sockets import Order
from tests.bench.memory import pss
from tests.bench.stand import Stand, running_stack

TOKENS = int(os.environ.get("TOKENS") or 1200)
GAP_MS = 50.0
PARTS = ("postgres", "redis", "encoder", "schema", "worker", "site")


@dataclass(frozen=True)
class Sample:
    """The web processes at one moment, and the machine."""

    at: float
    web_pss_mib: tuple[float, ...]
    web_cpu_s: tuple[float, ...]
    redis_cpu_s: float


@dataclass(frozen=True)
class Phases:
    """What was seen before, while nobody asked, and while all were being answered."""

    empty: Sample
    idle: Sample
    idle_later: Sample
    streaming: Sample
    ended: Sample
    report: dict[str, object]


@dataclass
class Bench:
    """A site, and what a person needs to ask it."""

    stand: Stand
    tenant_slug: str
    collection: str
    cookies: list[str]  # a session of a person of their own, each

    @contextmanager
    def web_processes(self, count: int) -> Iterator[dict[int, psutil.Process]]:
        """So many new web processes by port; the one of before is left alone."""
        site = next(part for part in self.stand.plan.parts if part.name == "site")
        with ExitStack() as stack:
            found = {}
            for number in range(count):
                port = free_port()
                command = [
                    f"--port={port}" if each.startswith("--port=") else each
                    for each in site.command
                ]
                part = replace(
                    site,
                    name=f"site-{number}",
                    command=command,
                    ready=lambda port=port: http_answers(  # type: ignore[misc]
                        f"http://127.0.0.1:{port}/accounts/login/"
                    ),
                )
                running = stack.enter_context(started([part]))
                found[port] = psutil.Process(running[part.name].pid)
            yield found

    def order(self, ports: list[int], idle: int, asking: int, spread_s: float) -> Order:
        return Order(
            ports=ports,
            origin=self.stand.site,
            path=f"/ws/t/{self.tenant_slug}/chat/",
            idle=self.cookies[:idle],
            asking=self.cookies[idle : idle + asking],
            collection=self.collection,
            spread_s=spread_s,
        )

    def sample(self, web: list[psutil.Process]) -> Sample:
        redis = psutil.Process(self.stand.processes["redis"].pid)
        return Sample(
            time.monotonic(),
            tuple(pss(process) for process in web),
            tuple(_cpu_s(process) for process in web),
            _cpu_s(redis),
        )


def run(bench: Bench, *, processes: int, idle: int, asking: int, spread_s: float) -> Phases:
    """One round with so many web processes."""
    with bench.web_processes(processes) as web:
        members = list(web.values())
        _warm(bench, list(web))
        empty = bench.sample(members)
        people = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.chat.sockets"],
            cwd=BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            _tell(people, bench.order(list(web), idle, asking, spread_s).write())
            _await(people, "idle")
            at_idle = bench.sample(members)
            time.sleep(30)  # over a ping of each
            idle_later = bench.sample(members)
            _tell(people, "")
            _await(people, "streaming")
            streaming = bench.sample(members)
            _await(people, "ended")
            ended = bench.sample(members)
            _tell(people, "")
            assert people.stdout is not None
            report = json.loads(people.stdout.readline())
        finally:
            people.kill()
            people.wait()
        return Phases(empty, at_idle, idle_later, streaming, ended, report)


def _warm(bench: Bench, ports: list[int]) -> None:
    """What a process loads once: a whole question to each."""
    from ragsite.stack.demo import client

    for port in ports:
        site = f"http://127.0.0.1:{port}"
        with client.open_chat(
            site, bench.tenant_slug, cookie=bench.cookies[0], origin=bench.stand.site
        ) as chat:
            question = f"What is a tenant? {uuid.uuid4()}"
            client.ask(chat, question, collections=[bench.collection])


def _tell(people: subprocess.Popen[str], line: str) -> None:
    assert people.stdin is not None
    people.stdin.write(line + "\n")
    people.stdin.flush()


def _await(people: subprocess.Popen[str], phase: str) -> None:
    assert people.stdout is not None
    line = people.stdout.readline().strip()
    if line != phase:
        raise RuntimeError(f"awaited {phase}, the sockets said {line!r}")


def _cpu_s(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


@contextmanager
def bench(people: int) -> Iterator[Bench]:
    """Everything running, with so many members, for the block."""
    command = [sys.executable, "-m", "tests.bench.chat.upstream", str(TOKENS), str(GAP_MS)]
    upstream = subprocess.Popen(command, cwd=BASE_DIR, stdout=subprocess.PIPE, text=True)
    try:
        assert upstream.stdout is not None
        os.environ["TGI_URL"] = f"http://127.0.0.1:{int(upstream.stdout.readline())}"
        os.environ.update(
            GENERATION_CONCURRENCY="256",
            GENERATION_CONTEXT_TOKENS="8192",
            # The machine's time goes into what is measured.
            RERANKER="off",
            RESPONSE_CACHE_TTL_S="0",
        )
        with running_stack(PARTS, answer_tokens=TOKENS) as stand:
            yield _furnish(stand, people)
    finally:
        upstream.terminate()
        upstream.wait(10)


def _furnish(stand: Stand, people: int) -> Bench:
    """The documentation to ask, and members who are signed in."""
    # After Django has been set up.
    from django.conf import settings

    from ragsite.stack.demo import corpus
    from ragsite.stack.demo.people import SLUG, ensure_demo

    demo = ensure_demo()
    collection = corpus.ensure_collection(demo)
    corpus.bring_up_to_date(demo, collection, settings.BASE_DIR / "docs")
    for _ in corpus.wait_until_ingested(demo, collection):
        pass
    return Bench(stand, SLUG, str(collection.id), [_member(demo, n) for n in range(people)])


def _member(demo: object, number: int) -> str:
    """The cookie of a session of a new member."""
    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    from apps.tenants import services
    from apps.tenants.models import Role, User
    from ragsite.stack.demo.people import Demo

    assert isinstance(demo, Demo)
    email = f"person-{number}@demo.example"
    user = User(username=email, email=email)
    user.set_unusable_password()
    user.save()
    services.add_member(tenant=demo.tenant, user=user, role=Role.MEMBER)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return f"sessionid={session.session_key}"
