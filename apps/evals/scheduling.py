"""Runs by the clock: each night, and after large ingestions; and what keeps runs going.

Every decision is made from the tables, so a night that was missed (the machine was off) is made up
for once, and several clocks do no harm.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

from apps.documents.jobs import UNFINISHED as UNFINISHED_DOCUMENTS
from apps.documents.models import Document, DocumentState
from apps.evals import claims
from apps.evals.answering import claims as answer_claims
from apps.evals.answering.starting import ANSWER_NEXT
from apps.evals.configuration import changes, describe
from apps.evals.models import EvalRun, LabelledSet, RunQuestion
from apps.evals.questions import measurable
from apps.evals.running import RUN_NEXT, start_run
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.options import options_for
from apps.retrieval.selectors import active_index
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from worker.enqueue import wake

# Younger than this, last night's run is not old; runs start minutes later on one night or another.
_DAY = timedelta(hours=20)
_SHARE = 0.1  # of a collection's documents, to be a large ingestion


def wake_for_runs() -> None:
    """Messages are lost with the broker, and leases run out with their worker."""
    if claims.is_due():
        wake(RUN_NEXT)
    if answer_claims.is_due():
        wake(ANSWER_NEXT)


def start_due_runs(now: datetime | None = None) -> list[EvalRun]:
    """Start a run of each set that is due one, over all tenants; and forget old details."""
    now = now or timezone.now()
    active = EmbeddingIndex.objects.filter(active=True)
    started: list[EvalRun] = []
    for tenant in Tenant.objects.filter(id__in=active.values("tenant_id")).order_by("id"):
        with tenant_scope(tenant.id):
            watched = LabelledSet.objects.filter(tenant=tenant, nightly=True).order_by("id")
            set_ids = list(watched.values_list("id", flat=True))
        runs = [_start_if_due(tenant, set_id, now) for set_id in set_ids]
        started += [run for run in runs if run is not None]
    _forget_details(now)
    return started


def _start_if_due(tenant: Tenant, set_id: uuid.UUID, now: datetime) -> EvalRun | None:
    """The set's row is held meanwhile: of two clocks, the second finds the run."""
    with tenant_scope(tenant.id):
        held = LabelledSet.objects.select_for_update(no_key=True)
        labelled_set = held.filter(tenant=tenant, id=set_id, nightly=True).first()
        if labelled_set is None:
            return None
        trigger, questions = trigger_for(labelled_set, now), measurable(labelled_set).count()
        if trigger is None or not questions:
            return None
        most = settings.EVALUATE_QUESTIONS_MAX
        return start_run(
            tenant=tenant,
            labelled_set=labelled_set,
            trigger=trigger,
            sample=most if questions > most else None,
        )


def trigger_for(labelled_set: LabelledSet, now: datetime) -> EvalRun.Trigger | None:
    """Why a run of the set is due now; None: it is not. Call inside the tenant's scope."""
    runs = EvalRun.objects.filter(
        tenant_id=labelled_set.tenant_id, labelled_set=labelled_set, configuration__default=True
    )
    if runs.filter(state__in=claims.UNFINISHED).exists():
        return None
    last = runs.exclude(state=EvalRun.State.CANCELLED).order_by("-created_at").first()
    since = last.created_at if last else labelled_set.created_at
    if since < last_night(now) and (last is None or now - since > _DAY or _changed(last)):
        return EvalRun.Trigger.NIGHTLY
    if last is not None and _large_ingestion_since(last, labelled_set.collection_id):
        return EvalRun.Trigger.INGESTION
    return None


def last_night(now: datetime) -> datetime:
    """When the hour for nightly runs last struck."""
    today = now.replace(hour=settings.EVALUATE_AT_HOUR % 24, minute=0, second=0, microsecond=0)
    return today if today <= now else today - timedelta(days=1)


def _changed(last: EvalRun) -> bool:
    """Whether the collection, or how it is searched, is another than in that run."""
    described = describe(
        labelled_set=last.labelled_set,
        options=options_for(last.tenant_id),
        index=active_index(last.tenant_id),
        stages=None,
        is_default=True,
    )
    return bool(changes(last.configuration, described))


def _large_ingestion_since(last: EvalRun, collection_id: uuid.UUID) -> bool:
    """Whether many documents have come or gone since, and none is on its way any more."""
    documents = Document.objects.filter(tenant_id=last.tenant_id, collection_id=collection_id)
    ready = documents.filter(state=DocumentState.READY)
    before = last.configuration["collection"]["documents"]
    came = ready.filter(ready_at__gt=last.created_at).count()
    went = max(0, before + came - ready.count())
    if came + went < max(settings.EVALUATE_AFTER_DOCUMENTS, _SHARE * before):
        return False
    return not documents.filter(state__in=UNFINISHED_DOCUMENTS).exists()


def _forget_details(now: datetime) -> None:
    """Delete what old runs found for each question, but for each set's newest run."""
    newer = EvalRun.objects.filter(
        tenant_id=OuterRef("tenant_id"),
        labelled_set_id=OuterRef("labelled_set_id"),
        state=EvalRun.State.DONE,
        created_at__gt=OuterRef("created_at"),
    )
    horizon = now - timedelta(days=settings.EVALUATION_KEEP_DAYS)
    old = EvalRun.objects.filter(Exists(newer), finished_at__lt=horizon)
    for tenant_id, run_id in old.values_list("tenant_id", "id"):
        RunQuestion.objects.filter(tenant_id=tenant_id, run_id=run_id).delete()
