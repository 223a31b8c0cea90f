"""A document's job: who works on it, and how it ends.

received → parsing → indexing → ready, or failed from anywhere. The row in `Job` says what is still
to be done; a message in the broker only says that there is something to do. Whoever takes a job
(see `turns` for whose is next) holds it while the lease lasts and proves it by the job's id and
its fence: the number of times it was taken or put back. Every change is compare-and-set on these,
so a worker that was thought dead changes nothing.

Locks are taken in the order collection, document, job: the order in which deletions cascade.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from apps.documents import turns
from apps.documents.models import Chunk, Document, DocumentState, Job, Page, Stage
from apps.documents.turns import ATTEMPTS_MAX, Claim
from apps.tenants.scope import tenant_scope
from worker.enqueue import queue_length, wake

__all__ = ["ATTEMPTS_MAX", "UNFINISHED", "Claim"]

UNFINISHED = (DocumentState.RECEIVED, DocumentState.PARSING, DocumentState.INDEXING)
# The task that takes one job of a stage, by the name it is enqueued under.
TASKS = {Stage.INGEST: "documents.ingest_next", Stage.INDEX: "retrieval.index_next"}
# For something outside to answer again, before the document is given up.
PATIENCE_S = 24 * 60 * 60.0
_MESSAGE_MAX_CHARS = 500
# What an unforeseen error is noted as until the next attempt, and how long that is held off.
_CRASH = "crash_"
_CRASH_PAUSE_S = 5.0
# Messages that a sweep puts into a queue at most: each one's worker asks for more.
_WAKE_MAX = 32


def submit(document: Document, stage: Stage = Stage.INGEST) -> None:
    """Give a document a job, in the open transaction; a worker hears of it after the commit."""
    turns.enter(tenant_id=document.tenant_id, document_id=document.id, stage=stage)
    wake(TASKS[stage])


def take(stage: Stage, *, lease_s: float | None = None) -> Claim | None:
    """The job of `stage` whose turn it is; None where none waits.

    A tenant that has TENANT_JOBS_MAX jobs under way is passed over. A job that was taken
    ATTEMPTS_MAX times without getting further is failed instead: it kills its workers.
    """
    lease_s = settings.JOB_LEASE_S if lease_s is None else lease_s
    bound: int = settings.TENANT_JOBS_MAX
    while (claim := turns.take_next(stage, lease_s=lease_s, tenant_jobs_max=bound)) is not None:
        if claim.attempt <= ATTEMPTS_MAX:
            return claim
        _give_up_crashing(claim)
    return None


def begin(claim: Claim, state: DocumentState) -> Document | None:
    """The claimed document, now in `state`; None where it is gone or another attempt has it."""
    with tenant_scope(claim.tenant_id):
        if not hold(claim):
            return None
        document = Document.objects.get(tenant_id=claim.tenant_id, id=claim.document_id)
        if document.state not in UNFINISHED:  # nothing is left to be done
            _held(claim).delete()
            return None
        _update(
            claim, state=state, progress_done=0, progress_total=0, error_code="", error_message=""
        )
        document.state = state
        return document


def renew(claim: Claim) -> bool:
    """Hold the job on; False when the document is gone, or another attempt took the job over."""
    expires = Now() + timedelta(seconds=settings.JOB_LEASE_S)
    return _held(claim).update(lease_expires_at=expires) == 1


def hold(claim: Claim) -> bool:
    """`renew` inside a transaction that is going to write: the document stays until its end."""
    ours = Document.objects.select_for_update(no_key=True).filter(
        tenant_id=claim.tenant_id, id=claim.document_id
    )
    return ours.only("id").first() is not None and renew(claim)


def report_progress(claim: Claim, *, done: int, total: int) -> bool:
    """Say how far the stage is, and `renew`."""
    with tenant_scope(claim.tenant_id):
        if not hold(claim):
            return False
        _update(claim, progress_done=done, progress_total=total)
    return True


def note_further(claim: Claim) -> None:
    """A part of the work is kept, in the open transaction: this attempt counts as its first."""
    _held(claim).update(attempt=1)


def pass_on(claim: Claim, stage: Stage) -> bool:
    """Hand the job on to `stage`, in the open transaction; False when it is not ours any more."""
    passed = turns.put_back(claim, stage)
    if passed:
        wake(TASKS[stage])
    return passed


def give_turn(claim: Claim) -> bool:
    """Put the job back behind what other tenants have waiting; what was done so far counts."""
    return pass_on(claim, Stage(claim.stage))


def wait(claim: Claim, *, delay_s: float, code: str, message: str) -> bool:
    """Put the job back until something outside answers again; `message` says to people what.

    Not an attempt: the document is not to blame. After PATIENCE_S the answer is False, and nothing
    was done: it has to fail.
    """
    if claim.waited and claim.wait_ms > PATIENCE_S * 1000:
        return False
    with tenant_scope(claim.tenant_id):
        if hold(claim):
            _update(claim, error_code=code[:60], error_message=message[:_MESSAGE_MAX_CHARS])
            turns.put_back(claim, claim.stage, delay_s=delay_s)
    return True


def mark_ready(claim: Claim) -> list[uuid.UUID]:
    """The document is findable, in the transaction that makes it so.

    Older versions of it are superseded in the same step: their ids, whose search rows must go.
    The caller holds the collection's lock, and the job.
    """
    rows = Document.objects.filter(tenant_id=claim.tenant_id)
    ready = rows.get(id=claim.document_id)
    superseded = supersede(
        rows.filter(collection_id=ready.collection_id, path=ready.path, version__lt=ready.version)
    )
    _held(claim).delete()
    _update(
        claim,
        state=DocumentState.READY,
        progress_done=0,
        progress_total=0,
        error_code="",
        error_message="",
        ready_at=timezone.now(),
    )
    return superseded


def supersede(documents: QuerySet[Document]) -> list[uuid.UUID]:
    """Another version has taken the place of these, in the open transaction; which they were.

    Whoever works on one of them stops by itself. The caller holds the collection's lock.
    """
    current = documents.exclude(state=DocumentState.SUPERSEDED).order_by("id")
    ids = list(current.select_for_update(no_key=True).values_list("id", flat=True))
    documents.filter(id__in=ids).update(state=DocumentState.SUPERSEDED, updated_at=timezone.now())
    Job.objects.filter(document_id__in=ids).delete()
    return ids


def mark_failed(claim: Claim, *, code: str, message: str) -> None:
    """The document cannot be ingested; `message` tells a person why and what to do.

    What was written of it goes: nobody finds half a document.
    """
    with tenant_scope(claim.tenant_id):
        if not hold(claim):
            return
        _held(claim).delete()
        owner = {"tenant_id": claim.tenant_id, "document_id": claim.document_id}
        Chunk.objects.filter(**owner).delete()
        Page.objects.filter(**owner).delete()
        _update(
            claim,
            state=DocumentState.FAILED,
            error_code=code[:60],
            error_message=message[:_MESSAGE_MAX_CHARS],
            progress_done=0,
            progress_total=0,
            page_count=0,
            chunk_count=0,
        )


@contextmanager
def noting_crashes(claim: Claim) -> Iterator[None]:
    """Give the job back at once when an error ends it that nobody foresaw; the attempt counts.

    The error's name, never its words, is kept for the reason that a person is told in the end.
    """
    try:
        yield
    except Exception as exc:
        # Where the database is what is away, the lease runs out instead.
        with suppress(DatabaseError):
            _note_crash(claim, type(exc).__name__)
        raise


def waiting(stage: Stage, *, at_most: int = _WAKE_MAX, tenant_id: uuid.UUID | None = None) -> int:
    """Jobs of a stage that nobody holds and that may be taken now, counted up to `at_most`.

    Of one tenant, where it is given.
    """
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=Now())
    due = Q(not_before__isnull=True) | Q(not_before__lte=Now())
    whose = {"tenant_id": tenant_id} if tenant_id is not None else {}
    return Job.objects.filter(free, due, stage=stage, **whose)[:at_most].count()


def wake_workers(stage: Stage, *, at_most: int = _WAKE_MAX) -> int:
    """Messages sent, so that as many are queued as jobs wait; 0 when the broker cannot be asked."""
    return _wake(stage, waiting(stage, at_most=at_most))


def wake_others(claim: Claim) -> None:
    """A job has ended: wake workers for those whose messages came while its tenant had too many.

    For as many as the tenant may have more, its jobs of both stages together, and first for what
    has been read. More messages would be used up in vain, and the next job's end would send them
    again: measured at a message's 5 ms of a worker's time, eight of them for each small document.
    """
    if claim.attempt >= ATTEMPTS_MAX:  # others' last attempts, whoever they are of, waited for it
        for stage in Stage:
            wake_workers(stage, at_most=settings.WORKER_CONCURRENCY)
        return
    held = Job.objects.filter(tenant_id=claim.tenant_id, lease_expires_at__gt=Now()).count()
    places = settings.TENANT_JOBS_MAX - held
    for stage in (Stage.INDEX, Stage.INGEST):
        if places > 0:
            wanted = waiting(stage, at_most=places, tenant_id=claim.tenant_id)
            _wake(stage, wanted)
            places -= wanted


def _wake(stage: Stage, wanted: int) -> int:
    """Messages sent, so that `wanted` are queued."""
    queued = queue_length(stage) if wanted else None
    sent = 0 if queued is None else max(0, wanted - queued)
    for _ in range(sent):
        wake(TASKS[stage])
    return sent


def _note_crash(claim: Claim, kind: str) -> None:
    with tenant_scope(claim.tenant_id):
        if not hold(claim):
            return
        _held(claim).update(lease_expires_at=Now() + timedelta(seconds=_CRASH_PAUSE_S))
        message = f"Processing crashed ({kind}). It is tried again in a moment."
        _update(claim, error_code=f"{_CRASH}{kind}"[:60], error_message=message)


def _give_up_crashing(claim: Claim) -> None:
    with tenant_scope(claim.tenant_id):
        codes = Document.objects.filter(tenant_id=claim.tenant_id, id=claim.document_id)
        code = codes.values_list("error_code", flat=True).first() or ""
    kind = f" ({code.removeprefix(_CRASH)})" if code.startswith(_CRASH) else ""
    mark_failed(
        claim,
        code="kept_crashing",
        message=f"Processing kept crashing{kind} and was given up after {ATTEMPTS_MAX} attempts. "
        "Save the file again in its program, or export it as PDF, and upload that.",
    )


def _update(claim: Claim, **fields: object) -> None:
    """The caller holds the job."""
    Document.objects.filter(tenant_id=claim.tenant_id, id=claim.document_id).update(
        **fields, updated_at=timezone.now()
    )


def _held(claim: Claim) -> QuerySet[Job]:
    return Job.objects.filter(tenant_id=claim.tenant_id, id=claim.job_id, fence=claim.fence)
