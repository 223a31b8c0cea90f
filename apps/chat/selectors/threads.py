"""The messages of a conversation, as its page shows them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from apps.chat.models import Citation, Conversation, Feedback, Message, MessageRole, MessageState
from apps.chat.pipeline.types import Sentence
from apps.chat.rendering import render_answer
from apps.chat.selectors.citations import citation_urls, citations_by_message
from apps.chat.selectors.feedback import feedback_of
from apps.tenants.access import Access

# An answer still "streaming" after this long has lost the process that wrote it.
ABANDONED_AFTER = timedelta(minutes=5)


@dataclass(frozen=True)
class MessageView:
    """A message as the page shows it."""

    message: Message
    html: str  # answers only, sanitised
    citations: tuple[Citation, ...]  # the sources of an answer, by marker
    state: str
    searched_as: str = ""  # answers only: what was searched for where it was not the question
    feedback: Feedback | None = None  # the reader's own

    @property
    def is_answer(self) -> bool:
        return self.message.role == MessageRole.ANSWER


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
    citations = citations_by_message(access.tenant.id, [message.id for message in shown])
    searched = {m.id: m.searched_as for m in messages if m.role == MessageRole.QUESTION}
    thumbs = {each.message_id: each for each in feedback_of(access, shown)}
    return [
        MessageView(
            message,
            _html(access, message, citations.get(message.id, ())),
            citations.get(message.id, ()),
            state_of(message),
            searched_as=searched.get(message.in_reply_to, "") if message.in_reply_to else "",
            feedback=thumbs.get(message.id),
        )
        for message in shown
    ]


def get_answer(access: Access, answer_id: uuid.UUID) -> Message | None:
    """An answer in one of one's own conversations, or None."""
    return Message.objects.filter(
        tenant=access.tenant,
        id=answer_id,
        role=MessageRole.ANSWER,
        conversation__user=access.user,
    ).first()


def get_question(access: Access, answer: Message) -> Message | None:
    """The question of one of one's own answers."""
    if answer.in_reply_to is None:
        return None
    return Message.objects.filter(
        tenant=access.tenant, id=answer.in_reply_to, conversation__user=access.user
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


def _html(access: Access, message: Message, citations: tuple[Citation, ...]) -> str:
    if message.role != MessageRole.ANSWER:
        return ""
    sentences = [
        Sentence(s["start"], s["end"], tuple(s["markers"]), s["supported"]) for s in message.support
    ]
    urls = citation_urls(access, {c.marker: c.id for c in citations})
    return render_answer(message.text, sentences, urls)
