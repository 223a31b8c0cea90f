"""Sums of the ledger by day and hour: nothing that could not be derived from it again.

A line is the sum over one value of one dimension, not over a combination of them: pages ask for
one dimension at a time, and so a tenant's quarter is hundreds of lines whatever it has called.
Figures of a tenant that holds no text: no row-level security, operations read all.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

# Whose lines are those of everybody together, in UTC: for operations.
EVERYBODY = uuid.UUID(int=0)


class LedgerLine(models.Model):
    """What the rows with one `key` in one `dimension` add up to; times in microseconds."""

    id = models.BigAutoField(primary_key=True)
    tenant_id = models.UUIDField()  # or EVERYBODY
    dimension = models.CharField(max_length=10)
    key = models.CharField(max_length=200, blank=True)
    calls = models.BigIntegerField()
    answers = models.BigIntegerField()
    prompt_tokens = models.BigIntegerField()
    cached_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    cost_micros = models.BigIntegerField()
    unpriced_calls = models.BigIntegerField()
    estimated_calls = models.BigIntegerField()
    failed = models.BigIntegerField()
    saved_micros = models.BigIntegerField()
    saved_us = models.BigIntegerField()
    queue_us = models.BigIntegerField()
    first_token_us = models.BigIntegerField()
    first_token_calls = models.BigIntegerField()
    total_us = models.BigIntegerField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.dimension} {self.key}: {self.cost_micros} micros"


class LedgerDay(LedgerLine):
    """A day where the tenant is."""

    day = models.DateField()

    class Meta:
        constraints: ClassVar = [
            # A range of days of one dimension is read in its order.
            models.UniqueConstraint(
                fields=["tenant_id", "dimension", "day", "key"], name="ledger_day_once"
            ),
        ]


class LedgerHour(LedgerLine):
    """An hour of UTC. Fewer dimensions: by hour, users and keys would be as many as the rows."""

    hour = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant_id", "dimension", "hour", "key"], name="ledger_hour_once"
            ),
        ]


class LedgerConversation(models.Model):
    """What one conversation cost on one day: how many there were cannot be summed over days."""

    id = models.BigAutoField(primary_key=True)
    tenant_id = models.UUIDField()  # or EVERYBODY
    day = models.DateField()
    conversation_id = models.UUIDField()
    cost_micros = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [
            # With the cost in it, so that a quarter's conversations are read from it alone.
            models.UniqueConstraint(
                fields=["tenant_id", "day", "conversation_id"],
                include=["cost_micros"],
                name="ledger_conversation_once",
            ),
        ]

    def __str__(self) -> str:
        return f"conversation {self.conversation_id}: {self.cost_micros} micros"


class RollupMark(models.Model):
    """How far the ledger is in the rollups: every row up to this id, none after it. One row, or
    none yet."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    upto_id = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(id=1), name="rollup_mark_only"),
        ]

    def __str__(self) -> str:
        return f"rolled up to {self.upto_id}"


class RollupZone(models.Model):
    """Where a tenant was when its days were summed; elsewhere since, they are summed again."""

    tenant_id = models.UUIDField(primary_key=True)
    time_zone = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{self.tenant_id} in {self.time_zone}"
