"""One point: the generator runs, its progress is told, and what it found is kept."""

from __future__ import annotations

import json
import logging
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from pydantic import ValidationError

from apps.capacity.errors import LoadTestError
from apps.capacity.load.measures import Figures
from apps.capacity.load.types import Event, Job, Target, Workload
from apps.capacity.loadtests import claims
from apps.capacity.loadtests.claims import Claim
from apps.capacity.loadtests.generating import Generator, GeneratorFailed, longest_s
from apps.capacity.loadtests.keys import key_for
from apps.capacity.loadtests.machine import describe_machine
from apps.capacity.loadtests.plan import Plan
from apps.capacity.loadtests.progress import TELL_S, OnProgress, begin_progress, follow
from apps.capacity.loadtests.steps import Done, Purpose, Step, job_of
from apps.capacity.loadtests.targets import check_target
from apps.capacity.models import LoadPoint, LoadTest

logger = logging.getLogger(__name__)

RECORDS_BYTES_MAX = 8 * 1024 * 1024
_FIGURES_CHARS_MAX = 200_000
_MESSAGE_CHARS = 500
# Codes of the generator's that another attempt may not meet again.
_PASSING = ("target_down",)
# Set when this process is about to end: its test goes on elsewhere.
closing = threading.Event()


@dataclass(frozen=True)
class Work:
    """A test as it stands."""

    claim: Claim
    test: LoadTest
    plan: Plan
    target: Target
    workload: Workload
    done: list[Done]
    key: str

    @property
    def elapsed_s(self) -> float:
        """Since the test began."""
        began = self.test.started_at or timezone.now()
        return (timezone.now() - began).total_seconds()


class Halted(Exception):
    """Stopped by a person, deleted, or taken by another. `done`: all that is measured by now."""

    def __init__(self, done: list[Done]) -> None:
        super().__init__()
        self.done = done


class PointFailed(LoadTestError):
    """The generator could not measure: `code` is its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = code in _PASSING


def read_done(test: LoadTest) -> list[Done]:
    """The points of a test, in their order. Raises ValidationError for what is none."""
    rows = LoadPoint.objects.filter(test_id=test.id).order_by("number")
    return [
        Done(cast(Purpose, purpose), load, Figures.model_validate(figures))
        for purpose, load, figures in rows.values_list("purpose", "load", "figures")
    ]


def measure(work: Work, step: Step, on_progress: OnProgress) -> None:
    """Measure one point and keep it. Raises Halted, or LoadTestError where that cannot be."""
    check_target(work.target)
    job = job_of(step, plan=work.plan, target=work.target, workload=work.workload, done=work.done)
    if not work.done:
        _note_machine(work)
    user = work.test.created_by
    with (
        tempfile.TemporaryDirectory(prefix="loadtest-") as folder,
        key_for(
            job.target,
            test_id=work.test.id,
            user=user,
            lasts_s=longest_s(job),
            given=work.key if job.target.kind != "null" else "",
        ) as key,
    ):
        last = _generate(work, step, job, Path(folder), key, on_progress)
        if last is None:
            raise Halted(work.done)
        if last.event == "failed":
            raise PointFailed(last.code[:60], _plain(last.message))
        figures = _figures(last)
        kept = _keep(work, step, job, figures, _records(last, Path(folder)))
    if not kept:
        raise Halted(work.done)
    if not claims.renew(work.claim):
        raise Halted([*work.done, Done(step.purpose, step.load, figures)])


def _generate(
    work: Work, step: Step, job: Job, folder: Path, key: str, on_progress: OnProgress
) -> Event | None:
    """The generator's last event; None: it was stopped and said nothing any more."""
    begun = begin_progress(step, plan=work.plan, done=work.done, elapsed_s=work.elapsed_s)
    is_stopping = False
    with Generator(job, folder=folder, key=key) as generator:
        try:
            for told in _each_second(generator.events()):
                if told is not None and told.event != "progress":
                    return told
                if is_stopping:
                    continue
                if closing.is_set():
                    claims.hand_over(work.claim)
                    return None
                point_s = time.monotonic() - generator.began
                progress = follow(begun, told.progress if told else {}, point_s=point_s)
                if on_progress(progress):
                    _cancel(work)
                if not claims.renew(work.claim, progress=progress):
                    is_stopping = True
                    generator.stop()
        except GeneratorFailed as exc:
            if is_stopping:
                return None
            logger.warning("%s: %s", exc.code, generator.complaint or "it wrote no log")
            raise
    return None


def _each_second(events: Iterator[Event | None]) -> Iterator[Event | None]:
    """The newest progress every TELL_S, also where none came; the last event at once."""
    newest: Event | None = None
    told = -TELL_S
    for event in events:
        if event is not None and event.event != "progress":
            yield event
            return
        newest = event or newest
        if time.monotonic() - told >= TELL_S:
            told = time.monotonic()
            yield newest


def _cancel(work: Work) -> None:
    work.claim.held().update(state=LoadTest.State.CANCELLED, finished_at=Now())


def _note_machine(work: Work) -> None:
    """Where the generator runs, and what else was at work there when the test began."""
    known = work.test.conditions if isinstance(work.test.conditions, dict) else {}
    work.claim.held().update(conditions={**known, "client": describe_machine()})


@transaction.atomic
def _keep(work: Work, step: Step, job: Job, figures: Figures, records: bytes) -> bool:
    """Whether it is kept: not of a test that is deleted, or that another has taken."""
    test = work.claim.mine().select_for_update(no_key=True).first()
    if test is None or test.state not in (LoadTest.State.RUNNING, LoadTest.State.CANCELLED):
        return False
    if figures.stopped and not figures.requests:
        return False
    LoadPoint.objects.create(
        test_id=test.id,
        number=step.number,
        purpose=step.purpose,
        arrivals=job.arrivals.kind,
        load=step.load,
        repeat=step.repeat,
        seed=job.seed,
        figures=figures.model_dump(mode="json"),
        records=records,
    )
    work.claim.mine().update(attempt=0, error_code="")
    return True


def _figures(last: Event) -> Figures:
    """Checked: they become JSON in a database, which knows neither NaN nor a NUL in a text."""
    try:
        figures = Figures.model_validate(last.figures)
        text = json.dumps(figures.model_dump(mode="json"), allow_nan=False)
        strict = json.dumps(figures.model_dump(), allow_nan=False)
    except (ValidationError, ValueError, TypeError):
        text = strict = ""
    if not strict or "\\u0000" in text or len(text) > _FIGURES_CHARS_MAX:
        raise GeneratorFailed("generator_garbage", "The generator's figures cannot be read.")
    return figures


def _records(last: Event, folder: Path) -> bytes:
    """The requests' own times; nothing where that was too much, or is elsewhere."""
    if not last.records:
        return b""
    path = folder / Path(last.records).name
    if path.is_symlink() or not path.is_file() or path.stat().st_size > RECORDS_BYTES_MAX:
        return b""
    return path.read_bytes()


def _plain(text: str) -> str:
    return "".join(char for char in text if char.isprintable())[:_MESSAGE_CHARS]
