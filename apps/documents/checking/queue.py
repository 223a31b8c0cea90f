"""Unfinished documents have one job each, and only they."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial

from django.db.models import Exists, OuterRef, QuerySet

from apps.documents import jobs
from apps.documents.checking.repairs import locked
from apps.documents.checking.types import Finding, Options, snapshot
from apps.documents.models import Document, DocumentState, Job, Stage


def unfinished_without_a_job(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Documents that nobody would ever take up."""
    job = Job.objects.filter(tenant_id=tenant_id, document_id=OuterRef("id"))
    with snapshot(tenant_id):
        found = list(
            Document.objects.filter(~Exists(job), tenant_id=tenant_id, state__in=jobs.UNFINISHED)
            .order_by("id")
            .values_list("id", "state")
        )
    for document_id, state in found:
        yield Finding(
            "no_job",
            str(document_id),
            f"The document is {state}, and no job will ever finish it.",
            tenant_id,
            partial(_submit, tenant_id, document_id),
        )


def _submit(tenant_id: uuid.UUID, document_id: uuid.UUID) -> bool:
    """A job that is there already stays as it is."""
    with locked(tenant_id, document_id) as document:
        if document and document.state in jobs.UNFINISHED:
            chunked = document.state == DocumentState.INDEXING
            jobs.submit(document, Stage.INDEX if chunked else Stage.INGEST)
    return True


def jobs_of_finished_documents(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Jobs of documents that are ready, failed, superseded or gone."""
    unfinished = _unfinished(tenant_id)
    with snapshot(tenant_id):
        found = list(
            Job.objects.filter(~Exists(unfinished), tenant_id=tenant_id)
            .order_by("id")
            .values_list("document_id", flat=True)
        )
    for document_id in found:
        yield Finding(
            "needless_job",
            str(document_id),
            "There is a job for a document that is finished or gone.",
            tenant_id,
            partial(_remove_job, tenant_id, document_id),
        )


def _remove_job(tenant_id: uuid.UUID, document_id: uuid.UUID) -> bool:
    with locked(tenant_id, document_id) as document:
        if document is None or document.state not in jobs.UNFINISHED:
            Job.objects.filter(tenant_id=tenant_id, document_id=document_id).delete()
    return True


def _unfinished(tenant_id: uuid.UUID) -> QuerySet[Document]:
    return Document.objects.filter(
        tenant_id=tenant_id, id=OuterRef("document_id"), state__in=jobs.UNFINISHED
    )
