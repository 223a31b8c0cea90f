"""Conversations, messages and citations. All of it is under row-level security."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models

from apps.documents.models import Document
from apps.tenants.models import Tenant


class Conversation(models.Model):
    """One person's thread of questions and answers."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    title = models.CharField(max_length=200, blank=True)
    collection_ids = models.JSONField(default=list)  # what the next question searches
    model = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="conversation_tenant_id"),
        ]
        indexes: ClassVar = [
            # The conversation list: one person's, most recent first.
            models.Index(fields=["tenant", "user", "-updated_at"], name="conversation_list"),
        ]

    def __str__(self) -> str:
        return self.title


class MessageRole(models.TextChoices):
    QUESTION = "question", "Question"
    ANSWER = "answer", "Answer"


class MessageState(models.TextChoices):
    """How an answer ended. A question is always complete."""

    STREAMING = "streaming", "Streaming"
    COMPLETE = "complete", "Complete"
    STOPPED = "stopped", "Stopped"
    INTERRUPTED = "interrupted", "Interrupted"
    FAILED = "failed", "Failed"


class Message(models.Model):
    """A question or an answer."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    conversation = models.ForeignKey(
        Conversation,
        models.DO_NOTHING,
        related_name="messages",
        db_constraint=False,
        db_index=False,
    )
    role = models.CharField(max_length=10, choices=MessageRole)
    state = models.CharField(max_length=12, choices=MessageState, default=MessageState.COMPLETE)
    text = models.TextField(blank=True)
    # Questions only: what was searched for, where a follow-up was made to stand alone.
    searched_as = models.TextField(blank=True)
    # Answers only, from here on.
    in_reply_to = models.UUIDField(null=True)
    model = models.CharField(max_length=100, blank=True)
    kind = models.CharField(max_length=20, blank=True)  # "generated", "quoted" or "not_found"
    notices = models.JSONField(default=list)  # [{"code", "message"}]: what was degraded, in words
    support = models.JSONField(
        default=list
    )  # [{"start", "end", "markers", "supported"}] per sentence
    prompt_tokens = models.PositiveIntegerField(null=True)
    completion_tokens = models.PositiveIntegerField(null=True)
    tokens_estimated = models.BooleanField(default=False)
    # How the response cache gave it: hit, semantic or shared; empty where it was made for this.
    cache = models.CharField(max_length=10, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="message_tenant_id"),
            models.CheckConstraint(
                condition=models.Q(state__in=MessageState.values), name="message_state"
            ),
        ]
        indexes: ClassVar = [
            # A conversation in order.
            models.Index(fields=["tenant", "conversation", "created_at"], name="message_thread"),
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.id}"


class Feedback(models.Model):
    """A reader's thumb on an answer."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    message = models.ForeignKey(
        Message, models.DO_NOTHING, related_name="feedback", db_constraint=False, db_index=False
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    thumb = models.SmallIntegerField()  # 1 or -1
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


class Citation(models.Model):
    """A passage the answer was given, as a place in a document rather than as a copy of its text.

    When the document is deleted only its name and the fact remain.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    message = models.ForeignKey(
        Message, models.DO_NOTHING, related_name="citations", db_constraint=False, db_index=False
    )
    marker = models.PositiveSmallIntegerField()  # the [n] of the answer, from 1
    cited = models.BooleanField(default=False)  # given to the model, and used by the answer
    document = models.ForeignKey(
        Document, models.DO_NOTHING, null=True, db_constraint=False, db_index=False
    )
    document_name = models.CharField(max_length=255)
    heading_path = models.CharField(max_length=500, blank=True)
    page_first = models.PositiveIntegerField()
    page_last = models.PositiveIntegerField()
    char_start = models.PositiveIntegerField()
    char_end = models.PositiveIntegerField()
    score = models.FloatField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "message", "marker"], name="citation_once"),
        ]
        indexes: ClassVar = [
            # Deleting a document clears its citations' reference.
            models.Index(fields=["tenant", "document"], name="citation_document"),
        ]

    def __str__(self) -> str:
        return f"[{self.marker}] of {self.message_id}"
