"""Who is told when a budget runs out, and what they have been told."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.tenants.models import Tenant


class AlertTarget(models.Model):
    """Where a tenant's alerts go besides its managers' addresses."""

    tenant = models.OneToOneField(Tenant, models.CASCADE, primary_key=True)
    mail_managers = models.BooleanField(default=True)
    emails = ArrayField(models.EmailField(), default=list, blank=True)
    webhook_url = models.URLField(max_length=500, blank=True)
    webhook_secret = models.CharField(max_length=64, blank=True)  # signs the body (HMAC-SHA-256)

    def __str__(self) -> str:
        return f"alerts of {self.tenant_id}"


class BudgetAlert(models.Model):
    """A threshold that was met, once in its window, and what became of telling it."""

    id = models.BigAutoField(primary_key=True)
    tenant_id = models.UUIDField()
    limit_id = models.UUIDField()
    subject = models.CharField(max_length=10)
    subject_id = models.CharField(max_length=40, blank=True)
    measure = models.CharField(max_length=20)
    # Null: a stock, such as documents, that is still above; once it has fallen, when it rose.
    window_start = models.DateTimeField(null=True)
    threshold = models.CharField(max_length=4)  # soft or hard
    used = models.BigIntegerField()
    limit = models.BigIntegerField()
    at = models.DateTimeField(auto_now_add=True)
    mailed_at = models.DateTimeField(null=True)
    hooked_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(null=True)  # the next attempt; null: nothing is left to be done
    # Why the last attempt of either came to nothing: a word of a fixed set.
    mail_error = models.CharField(max_length=60, blank=True)
    hook_error = models.CharField(max_length=60, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant_id", "limit_id", "subject_id", "window_start", "threshold"],
                name="budget_alert_once",
                nulls_distinct=False,
            ),
        ]
        indexes: ClassVar = [
            # The list on the limits page.
            models.Index(fields=["tenant_id", "-at"], name="budget_alert_page"),
            # What is still to be told, of all tenants.
            models.Index(
                fields=["due_at"],
                name="budget_alert_due",
                condition=models.Q(due_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.measure} of {self.subject} at its {self.threshold} limit"
