"""Collections, documents, their pages and chunks. All of it is under row-level security."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models

from apps.tenants.models import Tenant


class Collection(models.Model):
    """A body of documents with its own readers."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    # Open to every member of the tenant, or only to the readers named in CollectionReader.
    open_to_all = models.BooleanField(default=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="collection_name_once"),
            # Target of the tenant foreign keys.
            models.UniqueConstraint(fields=["tenant", "id"], name="collection_tenant_id"),
        ]

    def __str__(self) -> str:
        return self.name


class CollectionReader(models.Model):
    """A member who may chat with a collection that is not open to all."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    collection = models.ForeignKey(
        Collection, models.DO_NOTHING, related_name="readers", db_constraint=False, db_index=False
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "collection", "user"], name="collection_reader_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} reads {self.collection_id}"


class DocumentState(models.TextChoices):
    """Where a document is on its way; ends as ready or as failed with a reason."""

    RECEIVED = "received", "Received"
    PARSING = "parsing", "Parsing"
    CHUNKING = "chunking", "Chunking"
    INDEXING = "indexing", "Indexing"
    READY = "ready", "Ready"
    FAILED = "failed", "Failed"


class Document(models.Model):
    """One uploaded file, and the job row of its ingestion (state, attempt, lease)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    collection = models.ForeignKey(
        Collection, models.DO_NOTHING, related_name="documents", db_constraint=False, db_index=False
    )
    name = models.CharField(max_length=255)
    kind = models.CharField(max_length=100, blank=True)  # MIME type told from the content
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    storage_key = models.CharField(max_length=300)
    state = models.CharField(max_length=10, choices=DocumentState, default=DocumentState.RECEIVED)
    attempt = models.PositiveSmallIntegerField(default=0)
    # Whoever holds an unexpired lease owns the row; the sweeper re-enqueues expired ones.
    lease_expires_at = models.DateTimeField(null=True)
    progress_done = models.PositiveIntegerField(default=0)
    progress_total = models.PositiveIntegerField(default=0)
    error_code = models.CharField(max_length=60, blank=True)
    error_message = models.CharField(max_length=500, blank=True)
    page_count = models.PositiveIntegerField(default=0)
    chunk_count = models.PositiveIntegerField(default=0)
    language = models.CharField(max_length=8, blank=True)  # ISO 639-1, where it could be told
    uploaded_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    ready_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="document_tenant_id"),
            # The same bytes twice in a collection are one document.
            models.UniqueConstraint(
                fields=["tenant", "collection", "sha256"], name="document_bytes_once"
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=DocumentState.values), name="document_state"
            ),
        ]
        indexes: ClassVar = [
            # The documents page: a collection's documents, newest first.
            models.Index(fields=["tenant", "collection", "-created_at"], name="document_page"),
            # The sweeper: unfinished documents whose lease ran out.
            models.Index(
                fields=["tenant", "state", "lease_expires_at"],
                name="document_unfinished",
                condition=~models.Q(state__in=["ready", "failed"]),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Page(models.Model):
    """The text of one page; `char_start` is its offset in the document's whole text."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    document = models.ForeignKey(
        Document, models.DO_NOTHING, related_name="pages", db_constraint=False, db_index=False
    )
    number = models.PositiveIntegerField()  # from 1
    text = models.TextField(blank=True)
    char_start = models.PositiveIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "document", "number"], name="page_once"),
        ]

    def __str__(self) -> str:
        return f"page {self.number} of {self.document_id}"


class Chunk(models.Model):
    """A passage: `text` is the document's text from `char_start` to `char_end`, as it stands."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    document = models.ForeignKey(
        Document, models.DO_NOTHING, related_name="chunks", db_constraint=False, db_index=False
    )
    ordinal = models.PositiveIntegerField()  # from 0
    text = models.TextField()
    heading_path = models.CharField(max_length=500, blank=True)  # "Guide › Install › Linux"
    char_start = models.PositiveIntegerField()
    char_end = models.PositiveIntegerField()
    page_first = models.PositiveIntegerField()
    page_last = models.PositiveIntegerField()
    token_count = (
        models.PositiveIntegerField()
    )  # of text with heading path, in the chunker's tokenizer

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="chunk_tenant_id"),
            models.UniqueConstraint(fields=["tenant", "document", "ordinal"], name="chunk_once"),
            models.CheckConstraint(
                condition=models.Q(char_end__gt=models.F("char_start")), name="chunk_not_empty"
            ),
        ]

    def __str__(self) -> str:
        return f"chunk {self.ordinal} of {self.document_id}"
