"""How ingestion stands: counts, reasons, throughput and time left. Call inside the tenant's scope.

A page that is watched asks for this every two seconds, so nothing here reads pages or chunks:
measured at 10,000 documents in `tests/documents/test_progress.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Max, Q
from django.utils import timezone

from apps.documents.jobs import UNFINISHED
from apps.documents.models import Batch, Document, DocumentState, Job
from apps.documents.selectors import documents_of

WINDOW_S = 60.0  # throughput is that of the last minute
# Fewer documents or seconds say nothing about the rest.
_RATE_FROM_DOCUMENTS = 3
_RATE_FROM_S = 5.0
_BATCHES_SHOWN = 4

REASONS = {
    "password": "Needs a password",
    "encoding": "Encoding unclear",
    "no_text": "No text found",
    "archive": "Archive",
    "damaged": "Damaged",
    "unreadable_kind": "Kind that cannot be read",
    "unreadable": "Cannot be read",
    "timed_out": "Took too long",
    "out_of_memory": "Needed too much memory",
    "output_too_large": "Too much text",
    "crashed": "Its reader crashed",
    "kept_crashing": "Kept crashing",
    "sandbox_error": "Reader failed",
    "file_missing": "Stored file missing",
    "storage_unavailable": "Storage not reachable",
}


def reason_words(code: str) -> str:
    """The reason of a failure in two or three words: a heading for many documents."""
    return REASONS.get(code) or code.replace("_", " ").capitalize() or "Failed"


@dataclass(frozen=True)
class Group:
    """Documents that failed, or wait, for the same reason."""

    code: str
    count: int
    message: str  # of one of them
    is_example: bool = False  # the others' messages differ

    @property
    def words(self) -> str:
        return reason_words(self.code)


@dataclass(frozen=True)
class Standing:
    """How the documents of a collection stand: of each path, the newest version."""

    states: dict[str, int]
    failures: tuple[Group, ...] = ()  # the commonest first
    waiting: tuple[Group, ...] = ()  # unfinished, and held up by something outside

    @property
    def total(self) -> int:
        return sum(self.states.values())

    @property
    def ready(self) -> int:
        return self.states.get(DocumentState.READY, 0)

    @property
    def failed(self) -> int:
        return self.states.get(DocumentState.FAILED, 0)

    @property
    def received(self) -> int:
        return self.states.get(DocumentState.RECEIVED, 0)

    @property
    def parsing(self) -> int:
        return self.states.get(DocumentState.PARSING, 0)

    @property
    def indexing(self) -> int:
        return self.states.get(DocumentState.INDEXING, 0)

    @property
    def unfinished(self) -> int:
        return sum(self.states.get(state, 0) for state in UNFINISHED)


def standing_of(tenant_id: uuid.UUID, collection_id: uuid.UUID) -> Standing:
    """Counts by state and by reason, in one query."""
    rows = (
        documents_of(tenant_id, collection_id)
        .order_by()
        .values_list("state", "error_code")
        .annotate(
            count=Count("id"),
            message=Max("error_message"),
            messages=Count("error_message", distinct=True),
        )
        .order_by("-count", "error_code")
    )
    states: dict[str, int] = {}
    failures, waiting = [], []
    for state, code, count, message, messages in rows:
        states[state] = states.get(state, 0) + count
        if state == DocumentState.FAILED:
            failures.append(Group(code, count, message, messages > 1))
        elif state in UNFINISHED and code:
            waiting.append(Group(code, count, message))
    return Standing(states, tuple(failures), tuple(_merged(waiting)))


def _merged(groups: Iterable[Group]) -> list[Group]:
    """One a code: documents may wait for the same thing in two states."""
    merged: dict[str, Group] = {}
    for each in groups:
        before = merged[each.code].count if each.code in merged else 0
        merged[each.code] = Group(each.code, before + each.count, each.message)
    return list(merged.values())


@dataclass(frozen=True)
class BatchProgress:
    """A batch that is under way."""

    batch: Batch
    total: int  # documents that have arrived
    ready: int
    failed: int
    to_come: int  # files its sender still means to send; 0 once none has come for a minute
    per_minute: float | None  # None before there is a figure
    seconds_left: float | None

    @property
    def finished(self) -> int:
        return self.ready + self.failed

    @property
    def expected(self) -> int:
        return self.total + self.to_come


def batches_under_way(
    tenant_id: uuid.UUID, collection_id: uuid.UUID, *, now: datetime | None = None
) -> list[BatchProgress]:
    """The newest batches of the collection that have unfinished documents, newest first."""
    unfinished = Document.objects.filter(
        tenant_id=tenant_id, collection_id=collection_id, state__in=UNFINISHED
    ).exclude(batch=None)
    batches = Batch.objects.filter(
        tenant_id=tenant_id,
        collection_id=collection_id,
        id__in=set(unfinished.order_by().values_list("batch_id", flat=True).distinct()),
    ).order_by("-created_at")[:_BATCHES_SHOWN]
    return [_progress_of(batch, now or timezone.now()) for batch in batches]


def _progress_of(batch: Batch, now: datetime) -> BatchProgress:
    since = now - timedelta(seconds=WINDOW_S)
    finished = Q(state__in=(DocumentState.READY, DocumentState.SUPERSEDED))
    failed = Q(state=DocumentState.FAILED)
    counts = Document.objects.filter(tenant_id=batch.tenant_id, batch=batch).aggregate(
        total=Count("id"),
        ready=Count("id", filter=finished),
        failed=Count("id", filter=failed),
        lately=Count(
            "id", filter=finished & Q(ready_at__gte=since) | failed & Q(updated_at__gte=since)
        ),
        last=Max("created_at"),
    )
    ready, lately = counts["ready"], counts["lately"]
    is_sending = (counts["last"] or batch.created_at) > since
    missing = batch.expected - counts["total"] - batch.unchanged
    to_come = max(0, missing) if is_sending else 0
    per_minute = _rate(lately, (now - batch.created_at).total_seconds())
    left = counts["total"] - ready - counts["failed"] + to_come
    return BatchProgress(
        batch=batch,
        total=counts["total"],
        ready=ready,
        failed=counts["failed"],
        to_come=to_come,
        per_minute=per_minute,
        seconds_left=60 * left / per_minute if per_minute else None,
    )


def _rate(documents: int, age_s: float) -> float | None:
    """Documents a minute, over the last minute or since the batch began."""
    if age_s < WINDOW_S and (documents < _RATE_FROM_DOCUMENTS or age_s < _RATE_FROM_S):
        return None
    return documents * 60 / min(WINDOW_S, age_s)


def jobs_before(document: Document) -> int | None:
    """How many of the tenant's own documents come before this one; None when it is being worked on.

    Other tenants' documents take their turns in between, and are nobody else's business.
    """
    jobs = Job.objects.filter(tenant_id=document.tenant_id)
    job = jobs.filter(document_id=document.id).first()
    if job is None or (job.lease_expires_at and job.lease_expires_at > timezone.now()):
        return None
    earlier = Q(turn__lt=job.turn) | Q(turn=job.turn, id__lt=job.id)
    return jobs.filter(earlier, stage=job.stage).count()
