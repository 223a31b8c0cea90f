"""Labelled sets over a small searchable collection, and runs with made-up results."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from apps.documents.models import Collection, Document
from apps.evals.metrics import METRICS
from apps.evals.models import EvalRun, Label, LabelledQuestion, LabelledSet, RunQuestion
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import make_document, write_rows

TOPICS = ("pension", "holiday", "parking", "canteen", "laptop", "badge", "travel", "training")
STAGES = ("bm25", "vectors", "fused", "reranked", "final")


def topic_document(collection: Collection, topic: str) -> Document:
    """A ready document of two chunks that are about one topic each and share a few words."""
    document = make_document(
        collection,
        [
            f"The {topic} rules are set out here, with what everyone should know of {topic}.",
            f"More of {topic}: whom to ask, and where the forms are kept.",
        ],
    )
    write_rows(document)
    document.refresh_from_db()
    return document


def make_corpus(collection: Collection, topics: Sequence[str] = TOPICS) -> dict[str, Document]:
    """Topics with their documents."""
    with tenant_scope(collection.tenant_id):
        return {topic: topic_document(collection, topic) for topic in topics}


def make_set(
    collection: Collection, *, name: str = "Questions", nightly: bool = True
) -> LabelledSet:
    with tenant_scope(collection.tenant_id):
        return LabelledSet.objects.create(
            tenant_id=collection.tenant_id,
            collection=collection,
            name=name,
            origin=LabelledSet.Origin.UPLOAD,
            nightly=nightly,
        )


def add_question(
    labelled_set: LabelledSet,
    text: str,
    *places: Document | tuple[Document, int, int],
    grade: int = 1,
    unanswerable: bool = False,
    slices: Sequence[str] = (),
    key: str = "",
) -> LabelledQuestion:
    """With a label a place: a document, or a range of one."""
    with tenant_scope(labelled_set.tenant_id):
        question = LabelledQuestion.objects.create(
            tenant_id=labelled_set.tenant_id,
            labelled_set=labelled_set,
            key=key or uuid.uuid4().hex,
            text=text,
            unanswerable=unanswerable,
            slices=list(slices),
        )
        for place in places:
            document, start, end = place if isinstance(place, tuple) else (place, None, None)
            Label.objects.create(
                tenant_id=labelled_set.tenant_id,
                question=question,
                document=document,
                char_start=start,
                char_end=end,
                grade=grade,
            )
    return question


def make_topic_set(collection: Collection, corpus: Mapping[str, Document]) -> LabelledSet:
    """A question a topic, each answered by its document."""
    labelled_set = make_set(collection)
    for topic, document in corpus.items():
        add_question(labelled_set, f"What are the {topic} rules?", document, key=topic)
    return labelled_set


def finished_run(
    labelled_set: LabelledSet,
    values: Mapping[uuid.UUID, float],
    *,
    trigger: str = EvalRun.Trigger.NIGHTLY,
    configuration: Mapping[str, Any] | None = None,
    fingerprints: Mapping[uuid.UUID, str] | None = None,
    degraded: Mapping[str, int] | None = None,
) -> EvalRun:
    """A run that is done, each of whose questions had `values[question]` in every metric."""
    described = {
        "default": True,
        "options": {},
        "stages": list(STAGES),
        "limit": 10,
        "index": None,
        "collection": {"documents": 8, "chunks": 16},
    }
    tenant = Tenant.objects.get(id=labelled_set.tenant_id)
    with tenant_scope(tenant.id):
        run = EvalRun.objects.create(
            tenant=tenant,
            labelled_set=labelled_set,
            trigger=trigger,
            configuration=described | dict(configuration or {}),
            state=EvalRun.State.DONE,
            figures={"questions": len(values), "degraded": dict(degraded or {})},
        )
        for question_id, value in values.items():
            RunQuestion.objects.create(
                tenant=tenant,
                run=run,
                question_id=question_id,
                metrics={stage: dict.fromkeys(METRICS, value) for stage in STAGES},
                fingerprint=(fingerprints or {}).get(question_id, ""),
            )
    return run


def results_of(run: EvalRun) -> list[RunQuestion]:
    with tenant_scope(run.tenant_id):
        return list(RunQuestion.objects.filter(tenant_id=run.tenant_id, run=run))
