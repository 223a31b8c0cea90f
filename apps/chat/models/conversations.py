"""Conversations, and the folders that a person keeps them in."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models

from apps.tenants.models import Tenant


class TitleBy(models.TextChoices):
    """Who gave a conversation its title. A person's is never replaced."""

    RULE = "rule", "Rule"
    MODEL = "model", "Model"
    PERSON = "person", "Person"


class Folder(models.Model):
    """One person's own folder of conversations."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    name = models.CharField(max_length=60)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="folder_tenant_id"),
            models.UniqueConstraint(fields=["tenant", "user", "name"], name="folder_once"),
        ]

    def __str__(self) -> str:
        return self.name


class Conversation(models.Model):
    """One person's thread of questions and answers."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    title = models.CharField(max_length=200, blank=True)
    title_by = models.CharField(max_length=8, choices=TitleBy, default=TitleBy.RULE)
    collection_ids = models.JSONField(default=list)  # what the next question searches
    model = models.CharField(max_length=100, blank=True)
    # The last message of the branch that is shown; none: of the latest.
    leaf_id = models.UUIDField(null=True)
    folder = models.ForeignKey(
        Folder, models.DO_NOTHING, null=True, db_constraint=False, db_index=False
    )
    pinned_at = models.DateTimeField(null=True)
    archived_at = models.DateTimeField(null=True)
    # Hidden at once, gone for good when the time to undo is over.
    deleted_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)  # of the last question

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="conversation_tenant_id"),
            models.CheckConstraint(
                condition=models.Q(title_by__in=TitleBy.values), name="conversation_title_by"
            ),
        ]
        indexes: ClassVar = [
            # The conversation list: one person's, most recent first.
            models.Index(fields=["tenant", "user", "-updated_at"], name="conversation_list"),
            # Emptying a folder that is deleted.
            models.Index(fields=["tenant", "folder"], name="conversation_folder"),
            # The sweep of those whose time to undo is over; there are few at any time.
            models.Index(
                fields=["tenant", "deleted_at"],
                name="conversation_deleted",
                condition=models.Q(deleted_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.title
