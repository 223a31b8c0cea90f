"""What has been spent and what is reserved: the truth about budgets."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models


class BudgetCounter(models.Model):
    """What one subject used in one window, and what calls in flight have reserved of it.

    There is a row for each of a caller's subjects (its tenant, the person, the key) and measures,
    whether or not a limit is set: one that is set later counts what was used before.
    """

    id = models.BigAutoField(primary_key=True)
    tenant_id = models.UUIDField()
    subject = models.CharField(max_length=10)  # tenant, member or key
    subject_id = models.CharField(max_length=40, blank=True)  # "" for the tenant itself
    measure = models.CharField(max_length=10)  # micros (a month) or tokens (a day)
    window_start = models.DateTimeField()  # of the month or day, where the tenant is
    used = models.BigIntegerField(default=0)
    reserved = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant_id", "subject", "subject_id", "measure", "window_start"],
                name="budget_counter_once",
            ),
            models.CheckConstraint(
                condition=models.Q(used__gte=0) & models.Q(reserved__gte=0),
                name="budget_counter_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject} {self.measure} {self.used} + {self.reserved}"


class Reservation(models.Model):
    """The worst case of a request in flight. Its process renews the lease; a sweeper ends it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)  # the request's
    tenant_id = models.UUIDField()
    user_id = models.BigIntegerField(null=True)
    key_id = models.UUIDField(null=True)
    micros = models.BigIntegerField()  # still reserved
    tokens = models.BigIntegerField()
    month_start = models.DateTimeField()  # the windows that it was taken from
    day_start = models.DateTimeField()
    started_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    # The call in flight as last noted, to book it should its process die: the caller and the call.
    noted = models.JSONField(default=dict)

    class Meta:
        indexes: ClassVar = [
            # The sweeper looks for what has expired, over all tenants.
            models.Index(fields=["expires_at"], name="reservation_by_expiry"),
        ]

    def __str__(self) -> str:
        return f"reservation {self.id}"
