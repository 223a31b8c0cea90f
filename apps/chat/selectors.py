"""Reading conversations: one's own, and nobody else's."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from apps.chat.models import Citation, Conversation, Message, MessageRole, MessageState
from apps.chat.pipeline.types import Sentence
from apps.chat.rendering import render_answer
from apps.inference.types import ChatTurn
from apps.tenants.access import Access

HISTORY_MESSAGES = 12
# An answer still "streaming" after this long has lost the process that wrote it.
ABANDONED_AFTER = timedelta(minutes=5)


@dataclass(frozen=True)
class MessageView:
    """A message as the page shows it."""

    message: Message
    html: str  # answers only, sanitised
    citations: tuple[Citation, ...]  # the sources of an answer, by marker
    state: str

    @property
    def is_answer(self) -> bool:
        return self.message.role == MessageRole.ANSWER


def conversations_of(access: Access) -> QuerySet[Conversation]:
    """One's own conversations, the latest first."""
    return Conversation.objects.filter(tenant=access.tenant, user=access.user).order_by(
        "-updated_at"
    )


def get_conversation(access: Access, conversation_id: uuid.UUID) -> Conversation | None:
    """One's own conversation, or None."""
    return conversations_of(access).filter(id=conversation_id).first()


def thread_of(access: Access, conversation: Conversation) -> list[MessageView]:
    """The conversation in order: each question with the latest of its answers."""
    messages = list(
        Message.objects.filter(tenant=access.tenant, conversation=conversation).order_by(
            "created_at"
        )
    )
    latest = {m.in_reply_to: m for m in messages if m.role == MessageRole.ANSWER}
    shown: list[Message] = []
    for message in messages:
        if message.role == MessageRole.QUESTION:
            shown += [message, latest[message.id]] if message.id in latest else [message]
    citations = _citations_by_message(access.tenant.id, shown)
    return [_view(access, message, citations.get(message.id, ())) for message in shown]


def get_answer(access: Access, answer_id: uuid.UUID) -> Message | None:
    """An answer in one of one's own conversations, or None."""
    return Message.objects.filter(
        tenant=access.tenant,
        id=answer_id,
        role=MessageRole.ANSWER,
        conversation__user=access.user,
    ).first()


def state_of(message: Message) -> str:
    """Its state; an answer whose process has died is interrupted, whatever the row says."""
    abandoned = timezone.now() - message.created_at > ABANDONED_AFTER
    if message.state == MessageState.STREAMING and abandoned:
        return MessageState.INTERRUPTED
    return message.state


def total_ms_of(answer: Message) -> float | None:
    """From question to last token; None where the answer has not ended."""
    if answer.finished_at is None:
        return None
    return (answer.finished_at - answer.created_at).total_seconds() * 1000


def get_citation(access: Access, citation_id: uuid.UUID) -> Citation | None:
    """A source of one of one's own answers, or None."""
    return (
        Citation.objects.select_related("document", "message")
        .filter(tenant=access.tenant, id=citation_id, message__conversation__user=access.user)
        .first()
    )


def citation_urls(access: Access, citations: dict[int, uuid.UUID]) -> dict[int, tuple[str, str]]:
    """Marker → (id, address) of each source."""
    return {
        marker: (
            str(citation_id),
            reverse("chat:citation", args=[access.tenant.slug, citation_id]),
        )
        for marker, citation_id in citations.items()
    }


def history_before(tenant_id: uuid.UUID, question: Message) -> tuple[ChatTurn, ...]:
    """Earlier exchanges of the conversation, oldest first: answered questions only."""
    earlier = list(
        Message.objects.filter(
            tenant_id=tenant_id,
            conversation_id=question.conversation_id,
            created_at__lt=question.created_at,
        ).order_by("-created_at")[:HISTORY_MESSAGES]
    )
    answers: dict[uuid.UUID | None, Message] = {}
    for message in earlier:  # newest first: the latest answer of each question wins
        if message.role == MessageRole.ANSWER and message.kind == "generated" and message.text:
            answers.setdefault(message.in_reply_to, message)
    turns: list[ChatTurn] = []
    for message in reversed(earlier):
        if message.role == MessageRole.QUESTION and message.id in answers:
            turns += [
                ChatTurn("user", message.text),
                ChatTurn("assistant", answers[message.id].text),
            ]
    return tuple(turns)


def _citations_by_message(
    tenant_id: uuid.UUID, messages: list[Message]
) -> dict[uuid.UUID, tuple[Citation, ...]]:
    grouped: dict[uuid.UUID, tuple[Citation, ...]] = {}
    for citation in Citation.objects.filter(
        tenant_id=tenant_id, message_id__in=[message.id for message in messages]
    ).order_by("marker"):
        grouped[citation.message_id] = (*grouped.get(citation.message_id, ()), citation)
    return grouped


def _view(access: Access, message: Message, citations: tuple[Citation, ...]) -> MessageView:
    html = ""
    if message.role == MessageRole.ANSWER:
        sentences = [
            Sentence(s["start"], s["end"], tuple(s["markers"]), s["supported"])
            for s in message.support
        ]
        urls = citation_urls(access, {c.marker: c.id for c in citations})
        html = render_answer(message.text, sentences, urls)
    return MessageView(message, html, citations, state_of(message))
