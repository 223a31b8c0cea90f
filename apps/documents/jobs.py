"""A document's job: who works on it, whose turn is next, and how it ends.

received → parsing → indexing → ready, or failed from anywhere. The row in `Job` says what is still
to be done; a message in the broker only says that there is something to do. Whoever takes a job
holds it while the lease lasts and proves it by the fence: the number of times it was taken. Every
change is compare-and-set on that number, so a worker that was thought dead changes nothing.

Fairness is start-time fair queueing over the tenants (Goyal, Vin, Cheng 1997), each document
costing one: a job's turn is one above its tenant's last, or that of the job being served now where
the tenant had none waiting. Five hundred documents of one tenant do not come before another's one.

Locks are taken in the order collection, document, job: the order in which deletions cascade.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.documents.models import Document, DocumentState, Job, Stage
from apps.tenants.scope import tenant_scope
from worker.enqueue import queue_length, wake

ATTEMPTS_MAX = 3
UNFINISHED = (DocumentState.RECEIVED, DocumentState.PARSING, DocumentState.INDEXING)
# The task that takes one job of a stage, by the name it is enqueued under.
TASKS = {Stage.INGEST: "documents.ingest_next", Stage.INDEX: "retrieval.index_next"}
_MESSAGE_MAX_CHARS = 500
# Messages that a sweep puts into a queue at most: each one's worker asks for more.
_WAKE_MAX = 32

_TURN = """
    GREATEST(
        (SELECT max(turn) + 1 FROM documents_job
            WHERE tenant_id = %(tenant)s AND stage = %(stage)s),
        (SELECT min(turn) FROM documents_job WHERE stage = %(stage)s),
        0)
"""
_SUBMIT = f"""
    INSERT INTO documents_job (tenant_id, document_id, stage, turn, attempt, fence, since)
    VALUES (%(tenant)s, %(document)s, %(stage)s, {_TURN}, 0, 0, now())
    ON CONFLICT (tenant_id, document_id) DO NOTHING
"""  # noqa: S608 - no value is put into the text
_PASS_ON = f"""
    UPDATE documents_job SET stage = %(stage)s, turn = {_TURN}, attempt = 0, since = now(),
        lease_expires_at = NULL, not_before = now() + make_interval(secs => %(delay_s)s)
    WHERE tenant_id = %(tenant)s AND document_id = %(document)s AND fence = %(fence)s
"""  # noqa: S608
_IS_FREE = """
    (lease_expires_at IS NULL OR lease_expires_at <= now())
    AND (not_before IS NULL OR not_before <= now())
"""
_TAKE = f"""
    WITH running AS (
        SELECT tenant_id, count(*) AS jobs FROM documents_job
        WHERE lease_expires_at > now() GROUP BY tenant_id
    )
    UPDATE documents_job SET attempt = attempt + 1, fence = fence + 1, not_before = NULL,
        lease_expires_at = now() + make_interval(secs => %(lease_s)s)
    WHERE id = (
        SELECT job.id FROM documents_job AS job LEFT JOIN running USING (tenant_id)
        WHERE stage = %(stage)s AND {_IS_FREE} AND COALESCE(running.jobs, 0) < %(bound)s
        ORDER BY turn, job.id LIMIT 1 FOR UPDATE OF job SKIP LOCKED
    )
    RETURNING tenant_id, document_id, stage, attempt, fence, since
"""  # noqa: S608


@dataclass(frozen=True)
class Claim:
    """A job that was taken: whose it is, and the proof that it is still held."""

    tenant_id: uuid.UUID
    document_id: uuid.UUID
    stage: str
    attempt: int
    fence: int
    since: datetime  # when it began to wait

    @property
    def wait_ms(self) -> float:
        return (timezone.now() - self.since).total_seconds() * 1000


def submit(document: Document, stage: Stage = Stage.INGEST) -> None:
    """Give a document a job, in the open transaction; a worker hears of it after the commit."""
    with connection.cursor() as cursor:
        cursor.execute(
            _SUBMIT, {"tenant": document.tenant_id, "document": document.id, "stage": stage}
        )
    wake(TASKS[stage])


def take(stage: Stage, *, lease_s: float | None = None) -> Claim | None:
    """The job of `stage` whose turn it is; None where none waits.

    A tenant that has TENANT_JOBS_MAX jobs under way is passed over. A job that was taken
    ATTEMPTS_MAX times without getting further is failed instead: it kills its workers.
    """
    while (claim := _take(stage, settings.JOB_LEASE_S if lease_s is None else lease_s)) is not None:
        if claim.attempt <= ATTEMPTS_MAX:
            return claim
        mark_failed(
            claim,
            code="kept_crashing",
            message=f"Processing kept crashing and was given up after {ATTEMPTS_MAX} attempts. "
            "Save the file again in its program, or export it as PDF, and upload that.",
        )
    return None


def _take(stage: Stage, lease_s: float) -> Claim | None:
    bound: int = settings.TENANT_JOBS_MAX
    values = {"stage": str(stage), "lease_s": lease_s, "bound": bound}
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, values)
        row = cursor.fetchone()
    return Claim(*row) if row else None


def begin(claim: Claim, state: DocumentState) -> Document | None:
    """The claimed document, now in `state`; None where it is gone."""
    with tenant_scope(claim.tenant_id):
        found = Document.objects.filter(
            tenant_id=claim.tenant_id, id=claim.document_id, state__in=UNFINISHED
        )
        started = found.update(
            state=state,
            progress_done=0,
            progress_total=0,
            error_code="",
            error_message="",
            updated_at=timezone.now(),
        )
        return found.get() if started else None


def renew(claim: Claim) -> bool:
    """Hold the job on; False when the document is gone, or another attempt took the job over."""
    expires = timezone.now() + timedelta(seconds=settings.JOB_LEASE_S)
    return _held(claim).update(lease_expires_at=expires) == 1


def hold(claim: Claim) -> bool:
    """`renew` inside a transaction that is going to write: the document stays until its end."""
    ours = Document.objects.select_for_update(no_key=True).filter(
        tenant_id=claim.tenant_id, id=claim.document_id
    )
    return ours.only("id").first() is not None and renew(claim)


def report_progress(claim: Claim, *, done: int, total: int) -> bool:
    """Say how far the stage is, and `renew`."""
    if not renew(claim):
        return False
    with tenant_scope(claim.tenant_id):
        Document.objects.filter(tenant_id=claim.tenant_id, id=claim.document_id).update(
            progress_done=done, progress_total=total, updated_at=timezone.now()
        )
    return True


def pass_on(claim: Claim, stage: Stage) -> bool:
    """Hand the job on to `stage`, in the open transaction; False when it is not ours any more."""
    return _pass_on(claim, stage, delay_s=0)


def give_turn(claim: Claim) -> bool:
    """Put the job back behind what other tenants have waiting; what was done so far counts."""
    return _pass_on(claim, Stage(claim.stage), delay_s=0)


def wait(claim: Claim, *, delay_s: float, code: str, message: str) -> bool:
    """Put the job back until something outside answers again; `message` says to people what.

    Not an attempt: the document is not to blame.
    """
    with tenant_scope(claim.tenant_id):
        if not hold(claim):
            return False
        Document.objects.filter(tenant_id=claim.tenant_id, id=claim.document_id).update(
            error_code=code[:60], error_message=message[:_MESSAGE_MAX_CHARS]
        )
        put_back = _pass_on(claim, Stage(claim.stage), delay_s=delay_s)
        Job.objects.filter(tenant_id=claim.tenant_id, document_id=claim.document_id).update(
            since=claim.since
        )
        return put_back


def _pass_on(claim: Claim, stage: Stage, *, delay_s: float) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            _PASS_ON,
            {
                "tenant": claim.tenant_id,
                "document": claim.document_id,
                "fence": claim.fence,
                "stage": stage,
                "delay_s": delay_s,
            },
        )
        passed = bool(cursor.rowcount == 1)
    if passed and not delay_s:
        wake(TASKS[stage])
    return passed


def mark_ready(claim: Claim) -> list[uuid.UUID] | None:
    """The document is findable, in the transaction that made it so. None: it is not ours any more.

    Older versions of it are superseded in the same step: their ids, whose search rows must go.
    The caller holds the collection's lock.
    """
    if not hold(claim):
        return None
    now = timezone.now()
    rows = Document.objects.filter(tenant_id=claim.tenant_id)
    ready = rows.get(id=claim.document_id)
    older = rows.filter(
        collection_id=ready.collection_id, path=ready.path, version__lt=ready.version
    ).exclude(state=DocumentState.SUPERSEDED)
    superseded = list(older.order_by("id").values_list("id", flat=True))
    rows.filter(id__in=superseded).update(state=DocumentState.SUPERSEDED, updated_at=now)
    Job.objects.filter(
        tenant_id=claim.tenant_id, document_id__in=[*superseded, claim.document_id]
    ).delete()
    rows.filter(id=claim.document_id).update(
        state=DocumentState.READY,
        progress_done=0,
        progress_total=0,
        error_code="",
        error_message="",
        ready_at=now,
        updated_at=now,
    )
    return superseded


def mark_failed(claim: Claim, *, code: str, message: str) -> None:
    """The document cannot be ingested; `message` tells a person why and what to do."""
    with tenant_scope(claim.tenant_id):
        if not hold(claim):
            return
        _held(claim).delete()
        Document.objects.filter(tenant_id=claim.tenant_id, id=claim.document_id).update(
            state=DocumentState.FAILED,
            error_code=code[:60],
            error_message=message[:_MESSAGE_MAX_CHARS],
            progress_done=0,
            progress_total=0,
            updated_at=timezone.now(),
        )


def waiting(stage: Stage) -> int:
    """Jobs of a stage that nobody holds and that may be taken now."""
    now = timezone.now()
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now)
    due = Q(not_before__isnull=True) | Q(not_before__lte=now)
    return Job.objects.filter(free, due, stage=stage).count()


def wake_workers(stage: Stage, *, at_most: int = _WAKE_MAX) -> int:
    """Messages sent, so that as many are queued as jobs wait; 0 when the broker cannot be asked."""
    wanted = min(waiting(stage), at_most)
    queued = queue_length(stage) if wanted else None
    sent = 0 if queued is None else max(0, wanted - queued)
    for _ in range(sent):
        wake(TASKS[stage])
    return sent


def _held(claim: Claim) -> QuerySet[Job]:
    return Job.objects.filter(
        tenant_id=claim.tenant_id, document_id=claim.document_id, fence=claim.fence
    )
