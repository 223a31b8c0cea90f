"""What readers think of answers."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from apps.chat.models.messages import Message
from apps.tenants.models import Tenant


class Feedback(models.Model):
    """A reader's thumb on an answer."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    message = models.ForeignKey(
        Message, models.DO_NOTHING, related_name="feedback", db_constraint=False, db_index=False
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    thumb = models.SmallIntegerField()  # 1 or -1
    reasons = models.JSONField(default=list)  # codes of `apps.chat.feedback.REASONS`
    comment = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "message", "user"], name="feedback_once"),
            models.CheckConstraint(condition=models.Q(thumb__in=[1, -1]), name="feedback_thumb"),
        ]

    def __str__(self) -> str:
        return f"{self.thumb} on {self.message_id}"
