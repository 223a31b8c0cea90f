"""Questions, answers, and the passages that answers were given."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

from apps.chat.models.conversations import Conversation
from apps.documents.models import Document
from apps.tenants.models import Tenant


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
    # The message before it: the question of an answer, the answer that a question follows. Several
    # with the same are branches: edited questions, answers made anew.
    in_reply_to = models.UUIDField(null=True)
    # Answers only, from here on.
    comparison = models.UUIDField(null=True)  # shared by answers asked for side by side
    continues = models.UUIDField(null=True)  # the broken-off answer that this one goes on from
    model = models.CharField(max_length=100, blank=True)
    kind = models.CharField(max_length=20, blank=True)  # "generated", "quoted" or "not_found"
    notices = models.JSONField(default=list)  # [{"code", "message"}]: what was degraded, in words
    support = models.JSONField(
        default=list
    )  # [{"start", "end", "markers", "supported", "reason"}] per sentence
    prompt_tokens = models.PositiveIntegerField(null=True)
    completion_tokens = models.PositiveIntegerField(null=True)
    tokens_estimated = models.BooleanField(default=False)
    cost_micros = models.BigIntegerField(null=True)  # None: not known, or nothing was called
    follow_ups = models.JSONField(default=list)  # questions one may go on with
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
            # Answers whose process may have died; there are few at any time.
            models.Index(
                fields=["tenant", "created_at"],
                name="message_streaming",
                condition=models.Q(state="streaming"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.id}"


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
