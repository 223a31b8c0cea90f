"""What a tenant, its members and its keys have is counted right."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial

from django.db import connection

from apps.documents.checking.types import Finding, Options, snapshot
from apps.documents.models import DocumentUse
from apps.tenants.models import Subject
from apps.tenants.scope import tenant_scope

# By the rules of the triggers that keep the counts (migration 0009).
_RECOUNT = """
    SELECT of.subject, of.subject_id, count(*) FILTER (WHERE version = 1), sum(size_bytes)
    FROM documents_document, LATERAL (VALUES
        ('tenant', ''), ('member', uploaded_by_id::text), ('key', key_id::text)
    ) AS of (subject, subject_id)
    WHERE tenant_id = %s AND of.subject_id IS NOT NULL
    GROUP BY of.subject, of.subject_id
"""
_Counts = dict[tuple[str, str], tuple[int, int]]


def wrong_counts(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Counts of documents and bytes that are not those of the documents that are there."""
    with snapshot(tenant_id):
        if _kept(tenant_id) == _recounted(tenant_id):
            return
    yield Finding(
        "wrong_count",
        str(tenant_id),
        "Documents or bytes are counted wrong, by which limits are held.",
        tenant_id,
        partial(_count_anew, tenant_id),
    )


def _kept(tenant_id: uuid.UUID) -> _Counts:
    rows = DocumentUse.objects.filter(tenant_id=tenant_id)
    return {
        (row.subject, row.subject_id): (row.documents, row.bytes)
        for row in rows
        if row.documents or row.bytes
    }


def _recounted(tenant_id: uuid.UUID) -> _Counts:
    with connection.cursor() as cursor:
        cursor.execute(_RECOUNT, [tenant_id])
        return {
            (subject, subject_id): (documents, int(size))
            for subject, subject_id, documents, size in cursor.fetchall()
        }


def _count_anew(tenant_id: uuid.UUID) -> bool:
    """Whoever adds or deletes documents takes the tenant's own count first, which is held here."""
    own = DocumentUse.objects.filter(tenant_id=tenant_id, subject=Subject.TENANT, subject_id="")
    with tenant_scope(tenant_id):
        DocumentUse.objects.bulk_create(
            [DocumentUse(tenant_id=tenant_id, subject=Subject.TENANT)], ignore_conflicts=True
        )
        own.select_for_update(no_key=True).get()
        counted = _recounted(tenant_id)
        documents, size = counted.pop((Subject.TENANT, ""), (0, 0))
        own.update(documents=documents, bytes=size)
        DocumentUse.objects.filter(tenant_id=tenant_id).exclude(subject=Subject.TENANT).delete()
        DocumentUse.objects.bulk_create(
            DocumentUse(
                tenant_id=tenant_id,
                subject=subject,
                subject_id=subject_id,
                documents=documents,
                bytes=size,
            )
            for (subject, subject_id), (documents, size) in counted.items()
        )
    return True
