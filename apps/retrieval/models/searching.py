"""How a tenant is searched, and how well that has been going."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from pgvector.django import HalfVectorField

from apps.retrieval.models.indexes import EmbeddingIndex
from apps.tenants.models import Tenant


class SearchProfile(models.Model):
    """How a tenant's questions are searched. One is active; those before it are kept.

    A tenant without one is searched as the settings say.
    """

    class Origin(models.TextChoices):
        TUNED = "tuned", "Proposed by a measured curve"
        MANUAL = "manual", "Set by hand"
        RESTORED = "restored", "Taken back"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    origin = models.CharField(max_length=8, choices=Origin)
    ef_search = models.PositiveSmallIntegerField()
    leg_candidates = models.PositiveSmallIntegerField()
    rerank_candidates = models.PositiveSmallIntegerField()
    storage = models.CharField(max_length=7, default="halfvec")
    m = models.PositiveSmallIntegerField()
    ef_construction = models.PositiveSmallIntegerField()
    not_found_below = models.FloatField()
    active = models.BooleanField(default=False)
    # What it was set by: a curve's id, and the recall that was asked for.
    evidence_id = models.UUIDField(null=True)
    recall_goal = models.FloatField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="search_profile_tenant_id"),
            models.UniqueConstraint(
                fields=["tenant"], condition=models.Q(active=True), name="search_profile_active"
            ),
        ]

    def __str__(self) -> str:
        return f"search profile {self.id}"


class RecallSample(models.Model):
    """A real question's search, to be searched exactly as well, off its path.

    The question's vector and the passages' ids: no readable text, so no policy.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    index = models.ForeignKey(
        EmbeddingIndex, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    at = models.DateTimeField(auto_now_add=True)
    question = HalfVectorField()
    collection_ids = ArrayField(models.UUIDField())
    document_ids = ArrayField(models.UUIDField(), null=True)  # None: not narrowed
    plan = models.CharField(max_length=10)  # "exact" or "hnsw"
    ef_search = models.PositiveSmallIntegerField(null=True)
    wanted = models.PositiveSmallIntegerField()  # rows asked for
    found = ArrayField(models.UUIDField())  # chunks, best first
    search_ms = models.FloatField()
    # Once it has been checked; `found` and the other identifiers are gone then. Recall is a share
    # of what an exact search finds.
    found_rows = models.PositiveSmallIntegerField(null=True)
    exact_rows = models.PositiveSmallIntegerField(null=True)
    recall_10 = models.FloatField(null=True)
    recall = models.FloatField(null=True)  # at `wanted`
    exact_ms = models.FloatField(null=True)

    class Meta:
        indexes: ClassVar = [
            # A tenant's recall over time.
            models.Index(fields=["tenant", "at"], name="recall_sample_time"),
            # What is still to be checked.
            models.Index(
                fields=["id"], name="recall_sample_due", condition=models.Q(exact_rows__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return f"recall sample {self.id}"
