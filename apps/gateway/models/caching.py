"""The response cache. Answers are readable text: these tables are under row-level security."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.tenants.models import Tenant


class CachePolicy(models.Model):
    """What a tenant has decided about its cache; without a row, the defaults below."""

    tenant = models.OneToOneField(Tenant, models.CASCADE, primary_key=True)
    enabled = models.BooleanField(default=True)
    semantic = models.BooleanField(default=False)
    # Least cosine of two questions that may share an answer.
    semantic_threshold = models.FloatField(default=0.97)
    # Entries older than this are of another time: raised to forget everything at once.
    epoch = models.PositiveIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(semantic_threshold__gte=0.5)
                & models.Q(semantic_threshold__lte=1.0),
                name="cache_policy_threshold",
            ),
        ]

    def __str__(self) -> str:
        return f"cache of {self.tenant_id}"


class CachedResponse(models.Model):
    """One answer that may be given again to the same question of the same tenant."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    # SHA-256 over everything that the answer depends on, the question included.
    key = models.BinaryField(max_length=32)
    # The same without the question: within it, questions may be compared by meaning.
    scope = models.BinaryField(max_length=32)
    question = models.TextField(blank=True)  # for the audit of semantic hits; "" where not compared
    # Unit vector of the question, float32 little-endian, and the model it is by.
    vector = models.BinaryField(null=True)
    vector_model = models.CharField(max_length=200, blank=True)
    payload = models.JSONField()
    # Whose documents it may quote: what is deleted there must not be left here.
    collection_ids = ArrayField(models.UUIDField(), default=list)
    cost_micros = models.BigIntegerField(default=0)  # what a hit saves
    total_ms = models.FloatField(default=0.0)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "key"], name="cached_response_once"),
        ]
        indexes: ClassVar = [
            # Questions to compare with, newest first.
            models.Index(fields=["tenant", "scope", "-created_at"], name="cached_by_scope"),
            # The sweeper forgets what has expired.
            models.Index(fields=["tenant", "expires_at"], name="cached_by_expiry"),
        ]

    def __str__(self) -> str:
        return f"cached response {self.id}"


class SemanticHit(models.Model):
    """An answer given to a question that only meant the same: kept to be looked at, one by one."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    response_id = models.UUIDField()  # may be gone
    asked = models.TextField()
    answered = models.TextField()  # the question that the answer had been written for
    similarity = models.FloatField()
    user_id = models.BigIntegerField(null=True)
    key_id = models.UUIDField(null=True)
    at = models.DateTimeField(auto_now_add=True)
    # A person's verdict; a wrong pair is never served again.
    verdict = models.CharField(max_length=10, blank=True)  # "", right or wrong

    class Meta:
        indexes: ClassVar = [
            # The audit page, newest first.
            models.Index(fields=["tenant", "-at"], name="semantic_hit_page"),
            # Pairs that never share an answer again, looked at for every question compared.
            models.Index(
                fields=["tenant"],
                name="semantic_hit_wrong",
                condition=models.Q(verdict="wrong"),
            ),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(verdict__in=["", "right", "wrong"]), name="semantic_hit_verdict"
            ),
        ]

    def __str__(self) -> str:
        return f"semantic hit {self.id}"
