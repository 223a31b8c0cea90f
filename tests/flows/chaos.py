"""Killing parts of a stack at random moments while it ingests, and counting what that costs."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from ragsite.stack.state import BASE_DIR
from tests.running_stack import Stack, eventually

PARTS = ("worker", "zygote", "encoder", "redis", "postgres", "stack")
COLLECTION = "Papers"
# Of one part within a minute: the supervisor gives a part up that crashes more often.
_SPACING_S = 13.0
# Where no zygote comes in this time, the last file has been read, and there will be none.
_ZYGOTE_S = 5.0
_FINISHED = """
    SELECT count(*), count(*) FILTER (WHERE state IN ('ready', 'failed', 'superseded'))
    FROM documents_document JOIN tenants_tenant AS tenant ON tenant.id = tenant_id WHERE slug = %s
"""
_ATTEMPTS = """
    SELECT document_id, stage, attempt FROM documents_job
    JOIN tenants_tenant AS tenant ON tenant.id = tenant_id WHERE slug = %s AND attempt > 1
"""


@dataclass(frozen=True)
class Kill:
    """A part to kill: `after` that share of the documents is finished, and `delay_s` later."""

    part: str
    after: float
    delay_s: float


def make_schedule(seed: int, *, kills: int) -> list[Kill]:
    """Every part is killed at least once, where there are kills enough; the order is chance."""
    chance = random.Random(seed)  # noqa: S311 - the same each time
    parts = [PARTS[number % len(PARTS)] for number in range(kills)]
    chance.shuffle(parts)
    # The first comes while files are still being sent; reading is done long before indexing is.
    moments = [chance.uniform(0.0, 0.1 if part == "zygote" else 0.9) for part in parts]
    moments[0] = 0.0
    delays = [chance.uniform(0, 1) if moment else chance.uniform(1, 6) for moment in moments]
    kills = [Kill(*each) for each in zip(parts, moments, delays, strict=True)]
    return sorted(kills, key=lambda kill: kill.after)


@dataclass
class Figures:
    """What a run has seen."""

    kills: Counter[str] = field(default_factory=Counter)
    retaken: Counter[str] = field(default_factory=Counter)  # document -> times after the first
    recovery_s: dict[str, list[float]] = field(default_factory=dict)  # until a document is finished
    sendings: int = 0  # times the files were sent, until one time went through
    seconds: float = 0.0

    def lines(self) -> list[str]:
        """For people."""
        killed = ", ".join(f"{count} {part}" for part, count in sorted(self.kills.items()))
        slowest = ", ".join(
            f"{part} {max(times):.1f}" for part, times in sorted(self.recovery_s.items())
        )
        return [
            f"killed: {killed or 'nothing'}; files sent {self.sendings} times; "
            f"{self.retaken.total()} attempts after the first, at {len(self.retaken)} documents",
            f"seconds until a document was finished again, at most: {slowest or 'none'}",
            f"all finished in {self.seconds:.1f} s",
        ]


class Ingestion:
    """A folder on its way into a tenant of a stack."""

    def __init__(self, stack: Stack, slug: str, folder: Path, *, expected: int) -> None:
        self.stack, self.slug, self.folder, self.expected = stack, slug, folder, expected
        self.figures = Figures()
        # Held while the machine is without power: nothing is sent from it then.
        self._power = threading.Lock()
        self._sending: subprocess.Popen[str] | None = None

    def run(self, kills: list[Kill] = [], *, within_s: float) -> Figures:  # noqa: B006 - only read
        """Send the folder and wait until all is finished, killing as the schedule says."""
        started = time.monotonic()
        sender = threading.Thread(target=self.send)
        sender.start()
        killer = _Killer(self, kills)
        while not (killer.is_through and not sender.is_alive() and self.is_finished()):
            assert time.monotonic() - started < within_s, self._stuck(within_s)
            killer.look()
            self._count_attempts()
            time.sleep(0.15)
        self.figures.seconds = time.monotonic() - started
        return self.figures

    def send(self) -> None:
        """`manage.py ingest`, until it has gone through: again after every time it was cut off."""
        code = -1
        while code not in (0, 1):  # 1: one of the files has failed already
            self.figures.sendings += 1
            with self._power:
                self._sending = self._start_sending()
            answer, _ = self._sending.communicate()
            with suppress(ValueError):
                if json.loads(answer)["documents"]:
                    code = self._sending.returncode
            time.sleep(0.2)

    def _start_sending(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                *(sys.executable, "manage.py", "ingest", str(self.folder), "--json"),
                *("--tenant", self.slug, "--collection", COLLECTION, "--create"),
            ],
            cwd=BASE_DIR,
            env=self.stack.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def cut_the_power(self) -> None:
        """SIGKILL everything, whoever sends files included, and start the stack again."""
        with self._power:
            self.stack.kill_everything()
            if self._sending is not None:
                self._sending.kill()
                self._sending.wait()
            self.stack.start(people=False)

    def counts(self) -> tuple[int, int] | None:
        """Documents there, and of them finished; None while the database is away."""
        try:
            [(there, finished)] = self.stack.rows(_FINISHED, self.slug)
        except psycopg.Error:
            return None
        return there, finished

    def is_finished(self) -> bool:
        return self.counts() == (self.expected, self.expected)

    def _count_attempts(self) -> None:
        """Of the jobs that there are now: a job is gone when its document is finished."""
        with suppress(psycopg.Error):
            for document, stage, attempt in self.stack.rows(_ATTEMPTS, self.slug):
                name = f"{document} {stage}"
                self.figures.retaken[name] = max(self.figures.retaken[name], attempt - 1)

    def _stuck(self, within_s: float) -> str:
        states = self.stack.rows(
            "SELECT path, state, error_code, stage, attempt, fence, lease_expires_at, not_before "
            "FROM documents_document AS document LEFT JOIN documents_job ON document_id = "
            "document.id WHERE state NOT IN ('ready', 'superseded')"
        )
        return f"not finished within {within_s:.0f} s: {self.counts()}, {states[:20]}"


class _Killer:
    """Kills one after another, and notes how long it was until a document was finished again."""

    def __init__(self, ingestion: Ingestion, kills: list[Kill]) -> None:
        self._of = ingestion
        self._kills = list(kills)
        self._due_at: float | None = None
        self._last: dict[str, float] = {}
        self._waiting: list[tuple[str, float, int]] = []  # part, when, finished then

    @property
    def is_through(self) -> bool:
        return not self._kills

    def look(self) -> None:
        """Kill what is due."""
        counts = self._of.counts()
        if counts is None:
            return
        self._note_recovery(counts[1])
        if not self._kills:
            return
        kill, now = self._kills[0], time.monotonic()
        if self._due_at is None and counts[1] >= kill.after * self._of.expected:
            spaced = self._last.get(kill.part, -_SPACING_S) + _SPACING_S
            self._due_at = max(now + kill.delay_s, spaced)
        if self._due_at is None or now < self._due_at:
            return
        if self._kill(kill.part):
            self._last[kill.part] = time.monotonic()
            self._of.figures.kills[kill.part] += 1
            self._waiting.append((kill.part, now, counts[1]))
        elif kill.part != "zygote" or now < self._due_at + _ZYGOTE_S:
            return
        self._kills.pop(0)
        self._due_at = None

    def _kill(self, part: str) -> bool:
        """False where it does not run just now: a moment later, then."""
        stack = self._of.stack
        how: dict[str, Callable[[], object]] = {
            "zygote": stack.kill_zygote,
            "stack": self._of.cut_the_power,
        }
        try:
            how.get(part, lambda: stack.kill_with_children(part))()
        except LookupError:
            return False
        return True

    def _note_recovery(self, finished: int) -> None:
        for entry in [entry for entry in self._waiting if finished > entry[2]]:
            part, killed_at, _ = entry
            times = self._of.figures.recovery_s.setdefault(part, [])
            times.append(time.monotonic() - killed_at)
            self._waiting.remove(entry)


def make_tenant(stack: Stack, slug: str) -> None:
    """A tenant with nobody in it and nothing."""
    command = f"from apps.tenants.services import create_tenant as c; c(slug={slug!r}, name='It')"
    stack.manage("shell", "--verbosity=0", "--command", command)


def settle_weights(stack: Stack) -> None:
    """Weigh every collection with its true average length: else it is that of chance's order."""
    stack.manage("shell", "--verbosity=0", "--command", _WEIGH)


_WEIGH = """
from apps.retrieval.models import CollectionStatistics
from apps.retrieval.weighing import weigh_collection
for row in CollectionStatistics.objects.all():
    weigh_collection(tenant_id=row.tenant_id, collection_id=row.collection_id)
"""


def wait_for(stack: Stack, slug: str, path: str, version: int, *, within_s: float) -> None:
    """Until that version of a document is ready."""
    query = (
        "SELECT 1 FROM documents_document JOIN tenants_tenant AS tenant ON tenant.id = tenant_id "
        "WHERE slug = %s AND path LIKE %s AND version = %s AND state = 'ready'"
    )

    def ready() -> bool:
        with suppress(psycopg.Error):
            return bool(stack.rows(query, slug, f"%{path}", version))
        return False

    eventually(ready, within_s=within_s, what=f"version {version} of {path}")
