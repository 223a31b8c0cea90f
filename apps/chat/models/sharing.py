"""Conversations shown to the other members of a tenant."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models

from apps.chat.models.conversations import Conversation
from apps.tenants.models import Tenant


class Share(models.Model):
    """A conversation as it stood when it was shared: read-only, for members, until revoked.

    Its id is its address. What a reader may open of its sources is asked for again.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    conversation = models.ForeignKey(
        Conversation,
        models.DO_NOTHING,
        related_name="shares",
        db_constraint=False,
        db_index=False,
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)  # who shared it
    leaf_id = models.UUIDField()  # the last message shown
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="share_tenant_id"),
            models.UniqueConstraint(
                fields=["tenant", "conversation"],
                condition=models.Q(revoked_at__isnull=True),
                name="share_once",
            ),
        ]

    def __str__(self) -> str:
        return f"share of {self.conversation_id}"
