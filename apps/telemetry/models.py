"""What was measured, and who did what. No row here holds text of a document or a chat."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _


class HopStatus(models.TextChoices):
    """How a hop ended; anything but OK is also shown to the reader."""

    OK = "ok", _("Ok")
    CACHED = "cached", _("Cached")
    SKIPPED = "skipped", _("Skipped")
    DEGRADED = "degraded", _("Degraded")
    ERROR = "error", _("Error")


class Span(models.Model):
    """One hop of one answer or ingestion: how long it waited, how long it worked, how it ended."""

    id = models.BigAutoField(primary_key=True)
    tenant_id = models.UUIDField()
    trace_id = models.UUIDField()
    kind = models.CharField(max_length=20)  # "answer" or "ingestion"
    hop = models.CharField(max_length=30)
    status = models.CharField(max_length=10, choices=HopStatus)
    started_at = models.DateTimeField()
    wait_ms = models.FloatField(default=0.0)
    work_ms = models.FloatField()
    error_code = models.CharField(max_length=60, blank=True)
    # Numbers, flags and identifiers only: figures are readable by ops, text is not.
    attributes = models.JSONField(default=dict)

    class Meta:
        indexes: ClassVar = [
            # The hop table of one answer.
            models.Index(fields=["tenant_id", "trace_id"], name="span_by_trace"),
            # Percentiles per hop over a time window.
            models.Index(fields=["kind", "hop", "started_at"], name="span_by_hop"),
        ]

    def __str__(self) -> str:
        return f"{self.hop} {self.status} {self.work_ms:.1f} ms"


class AuditEvent(models.Model):
    """Something a person did that others may need to know of later."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant_id = models.UUIDField(null=True)
    actor_id = models.BigIntegerField(null=True)
    action = models.CharField(max_length=60)
    subject_id = models.CharField(max_length=60, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes: ClassVar = [
            # A tenant's trail, newest first.
            models.Index(fields=["tenant_id", "-at"], name="audit_by_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.subject_id}"
