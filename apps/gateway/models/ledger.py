"""The usage ledger: one row a call, never changed."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

UTC_DAY = models.Func(
    "at",
    template="((%(expressions)s AT TIME ZONE 'UTC')::date)",
    output_field=models.DateField(),
)


class LedgerEntry(models.Model):
    """One call to a model, or one answer that a cache gave in its place.

    Identifiers and figures, no text. The database refuses UPDATE and DELETE (a trigger of the
    migration), so whatever is derived from it can be derived again.
    """

    id = models.BigAutoField(primary_key=True)
    # The database's clock: that of a web machine may jump.
    at = models.DateTimeField(db_default=Now())
    tenant_id = models.UUIDField()
    user_id = models.BigIntegerField(null=True)
    key_id = models.UUIDField(null=True)
    conversation_id = models.UUIDField(null=True)
    request_id = models.UUIDField(default=uuid.uuid4)  # the calls of one answer share it
    # Of a call under a reservation: what is sent again after a lost connection is found here.
    settlement_id = models.UUIDField(null=True, unique=True)
    source = models.CharField(max_length=12)
    hop = models.CharField(max_length=10)
    model = models.CharField(max_length=100)
    upstream = models.CharField(max_length=60, blank=True)
    upstream_model = models.CharField(max_length=200, blank=True)
    collection_ids = ArrayField(models.UUIDField(), default=list)
    cache = models.CharField(max_length=10, default="none")
    cache_reason = models.CharField(max_length=30, blank=True)
    prompt_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    tokens_estimated = models.BooleanField(default=False)
    cost_micros = models.BigIntegerField(default=0)
    price_id = models.BigIntegerField(null=True)  # the price in force then; null: none was set
    saved_micros = models.BigIntegerField(default=0)
    saved_ms = models.FloatField(default=0.0)
    queue_ms = models.FloatField(default=0.0)
    first_token_ms = models.FloatField(null=True)
    total_ms = models.FloatField(default=0.0)
    attempts = models.PositiveSmallIntegerField(default=1)
    outcome = models.CharField(max_length=12)
    error_code = models.CharField(max_length=60, blank=True)

    class Meta:
        indexes: ClassVar = [
            # What has come since the rollups, of one tenant.
            models.Index(fields=["tenant_id", "id"], name="ledger_by_tenant"),
            # A window of time of one tenant: its dearest requests, its export.
            models.Index(fields=["tenant_id", "at"], name="ledger_by_time"),
            # The dearest calls of each day, of one tenant and of all. Days of UTC, for an index
            # knows one zone; a local day is within two of them.
            models.Index(
                models.F("tenant_id"),
                UTC_DAY,
                models.F("cost_micros").desc(),
                models.F("id").desc(),
                name="ledger_dearest_of_tenant",
            ),
            models.Index(
                UTC_DAY,
                models.F("cost_micros").desc(),
                models.F("id").desc(),
                name="ledger_dearest",
            ),
            # The calls of one answer.
            models.Index(fields=["request_id"], name="ledger_by_request"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(prompt_tokens__gte=0)
                & models.Q(cached_tokens__gte=0)
                & models.Q(output_tokens__gte=0)
                & models.Q(cost_micros__gte=0)
                & models.Q(saved_micros__gte=0),
                name="ledger_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.hop} {self.model} {self.cost_micros} micros"
