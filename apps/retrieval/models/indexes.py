"""Embedding indexes: what vectors belong to, and how one takes the place of another."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.documents.models import Document
from apps.tenants.models import Tenant


class EmbeddingModel(models.Model):
    """A model that questions and passages can be embedded with, beside the settings' own.

    Of the site, not of a tenant: an address that the site calls is operations' to name.
    """

    class Kind(models.TextChoices):
        SENTENCE_TRANSFORMERS = "sentence-transformers", "sentence-transformers, in the process"
        TEI = "tei", "text-embeddings-inference server"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    label = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=25, choices=Kind)
    location = models.CharField(max_length=500)  # name or path of the model; URL of the server
    query_prompt = models.CharField(max_length=200, blank=True)
    document_prompt = models.CharField(max_length=200, blank=True)
    languages = ArrayField(models.CharField(max_length=8), default=list)  # ISO 639-1, or "*"
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(
                    kind__in=["sentence-transformers", "tei"],
                ),
                name="embedding_model_kind",
            ),
        ]

    def __str__(self) -> str:
        return self.label


class EmbeddingIndex(models.Model):
    """What a vector belongs to: model, dimensions, prompts, and how the passages were cut.

    A tenant may have several, each with a vector for every passage; questions are searched in the
    active one.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    model_id = models.CharField(max_length=200)
    dimensions = models.PositiveIntegerField()
    query_prompt = models.CharField(max_length=200, blank=True)
    document_prompt = models.CharField(max_length=200, blank=True)
    # None: the settings' own model.
    embedder = models.ForeignKey(EmbeddingModel, models.PROTECT, null=True, db_index=False)
    chunker_version = models.PositiveSmallIntegerField()
    # Its passages are the chunks of this generation, cut to these lengths.
    generation = models.PositiveSmallIntegerField(default=0, db_default=0)
    chunk_tokens = models.PositiveIntegerField(default=0)  # 0: as the settings say
    chunk_overlap_tokens = models.PositiveIntegerField(default=0)
    # The partition of `ChunkVector` that its vectors are in: 0 is shared, any other its own.
    slot = models.PositiveSmallIntegerField(default=0)
    active = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="embedding_index_tenant_id"),
            models.UniqueConstraint(
                fields=[
                    *("tenant", "model_id", "dimensions", "query_prompt", "document_prompt"),
                    *("chunker_version", "generation"),
                ],
                name="embedding_index_once",
            ),
            # Questions are embedded with the one active index's model.
            models.UniqueConstraint(
                fields=["tenant"], condition=models.Q(active=True), name="embedding_index_active"
            ),
            # A partition of its own is nobody else's.
            models.UniqueConstraint(
                fields=["slot"], condition=models.Q(slot__gt=0), name="embedding_index_slot"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model_id} ({self.dimensions})"


class IndexedDocument(models.Model):
    """A document is wholly in an index: written with the last of its rows, in one transaction.

    What an index lacks is the ready documents without such a row: building one, keeping it in
    step and going on after a crash are all the same loop.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    index = models.ForeignKey(
        EmbeddingIndex, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    document = models.ForeignKey(Document, models.DO_NOTHING, db_constraint=False, db_index=False)
    chunk_count = models.PositiveIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "index", "document"], name="indexed_document_once"
            ),
        ]
        indexes: ClassVar = [
            # Deleting a document cascades here.
            models.Index(fields=["tenant", "document"], name="indexed_document_document"),
        ]

    def __str__(self) -> str:
        return f"{self.document_id} in {self.index_id}"


class AnnIndex(models.Model):
    """The HNSW index over one embedding index's vectors, in the database.

    Used for searches only while it is ready; a job builds it when the tenant has grown over the
    line, and drops it when it has shrunk.
    """

    class State(models.TextChoices):
        BUILDING = "building", "Being built"
        READY = "ready", "In use"
        FAILED = "failed", "Could not be built"

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    index = models.ForeignKey(
        EmbeddingIndex, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    storage = models.CharField(max_length=7, default="halfvec")  # or "bit", scored again after
    m = models.PositiveSmallIntegerField()
    ef_construction = models.PositiveSmallIntegerField()
    state = models.CharField(max_length=8, choices=State, default=State.BUILDING)
    error_code = models.CharField(max_length=60, blank=True)
    chunk_count = models.PositiveIntegerField(default=0)  # when it was built
    size_bytes = models.BigIntegerField(null=True)
    build_s = models.FloatField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "index", "storage", "m", "ef_construction"], name="ann_index_once"
            ),
            models.CheckConstraint(
                condition=models.Q(storage__in=["halfvec", "bit"]), name="ann_index_storage"
            ),
        ]

    def __str__(self) -> str:
        return f"hnsw of {self.index_id}"


class IndexBuild(models.Model):
    """An embedding index on its way beside the one in force: built, compared, switched, dropped."""

    class State(models.TextChoices):
        BUILDING = "building", "Being built"
        PAUSED = "paused", "Paused"
        READY = "ready", "Built, and kept in step"
        SWITCHED = "switched", "In force; the one before is kept"
        BACK = "back", "Switched back; kept in step"
        DROPPING = "dropping", "Being dropped"
        DONE = "done", "Done"
        CANCELLED = "cancelled", "Given up"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    # None once they are dropped.
    source = models.ForeignKey(
        EmbeddingIndex,
        models.DO_NOTHING,
        null=True,
        related_name="builds_from",
        db_constraint=False,
        db_index=False,
    )
    target = models.ForeignKey(
        EmbeddingIndex,
        models.DO_NOTHING,
        null=True,
        related_name="builds_to",
        db_constraint=False,
        db_index=False,
    )
    source_label = models.CharField(max_length=200)
    target_label = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=State, default=State.BUILDING)
    # What a killed worker held is taken up again after its lease; `fence` counts the takings.
    fence = models.PositiveIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    passages_per_s = models.FloatField(null=True)  # throttle; None: as fast as it goes
    error_code = models.CharField(max_length=60, blank=True)  # what it waits for
    chunks_done = models.PositiveIntegerField(default=0)
    embed_s = models.FloatField(default=0.0)  # spent working, for the time left
    gates = models.JSONField(default=dict)  # what was compared, and how it came out: figures only
    keep_until = models.DateTimeField(null=True)  # the old index
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    switched_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    built_at = models.DateTimeField(null=True)
    switched_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="index_build_tenant_id"),
            # One at a time.
            models.UniqueConstraint(
                fields=["tenant"],
                condition=~models.Q(state__in=["done", "cancelled"]),
                name="index_build_one",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    state__in=[
                        *("building", "paused", "ready", "switched", "back"),
                        *("dropping", "done", "cancelled"),
                    ]
                ),
                name="index_build_state",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source_label} to {self.target_label}"


class SwitchOverride(models.Model):
    """Why an index was put in force although a gate had refused it. Under row-level security."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    build = models.ForeignKey(IndexBuild, models.DO_NOTHING, db_constraint=False, db_index=False)
    reason = models.CharField(max_length=500)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["tenant", "build"], name="switch_override_build")]

    def __str__(self) -> str:
        return f"override of {self.build_id}"
