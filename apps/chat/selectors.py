"""Reading conversations: one's own, and nobody else's."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from apps.chat.models import (
    Citation,
    Conversation,
    Feedback,
    Message,
    MessageRole,
    MessageState,
)
from apps.chat.pipeline.types import Exchange, Sentence
from apps.chat.rendering import render_answer
from apps.gateway.using import own_use
from apps.inference.types import ChatTurn
from apps.tenants.access import Access
from apps.tenants.amounts import format_amount

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
    searched_as: str = ""  # answers only: what was searched for where it was not the question
    feedback: Feedback | None = None  # the reader's own

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
    citations = _citations_by_message(access.tenant.id, [message.id for message in shown])
    searched = {m.id: m.searched_as for m in messages if m.role == MessageRole.QUESTION}
    thumbs = {each.message_id: each for each in _feedback_of(access, shown)}
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


def get_feedback(access: Access, answer: Message) -> Feedback | None:
    """One's own thumb on an answer, or None."""
    return Feedback.objects.filter(tenant=access.tenant, message=answer, user=access.user).first()


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


@dataclass(frozen=True)
class OwnLimit:
    """One of a member's own limits, in words."""

    label: str  # "Tokens a day"
    used: str  # "1,066 tokens", what calls in flight hold included
    amount: str
    is_near: bool


def own_limits(access: Access) -> list[OwnLimit]:
    """What binds this member alone, with what they have used of it."""
    return [
        OwnLimit(
            label=use.rule.measure.label,
            used=format_amount(use.rule.measure, use.used + use.reserved),
            amount=format_amount(use.rule.measure, use.rule.amount),
            is_near=use.is_near,
        )
        for use in own_use(access.tenant, access.user.id)
    ]


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


def exchanges_before(tenant_id: uuid.UUID, question: Message) -> tuple[Exchange, ...]:
    """Earlier questions of the conversation as they were searched for, oldest first, answered or
    not, each with the latest answer that a model wrote."""
    return tuple(
        Exchange(asked.searched_as or asked.text, answer.text if answer else "")
        for asked, answer in _earlier(tenant_id, question)
    )


def history_before(tenant_id: uuid.UUID, question: Message) -> tuple[ChatTurn, ...]:
    """Earlier exchanges of the conversation, oldest first: answered questions only."""
    turns: list[ChatTurn] = []
    for asked, answer in _earlier(tenant_id, question):
        if answer is not None:
            turns += [ChatTurn("user", asked.text), ChatTurn("assistant", answer.text)]
    return tuple(turns)


@dataclass(frozen=True)
class CitedPlace:
    """A passage that an answer was given, as a place in a document that still exists."""

    document_id: uuid.UUID
    char_start: int
    char_end: int
    cited: bool  # the answer used it


@dataclass(frozen=True)
class FeedbackGiven:
    """A thumb on an answer, with all that is needed to review its passages."""

    message_id: uuid.UUID  # of the answer
    question: str  # as it was searched for: a follow-up stands alone
    thumb: int  # 1 or -1
    comment: str
    user_id: int
    collection_ids: tuple[uuid.UUID, ...]  # those of the passages first, then others searched
    citations: tuple[CitedPlace, ...]  # best first
    updated_at: datetime


def feedback_to_review(
    tenant_id: uuid.UUID, *, since: datetime | None = None
) -> Iterable[FeedbackGiven]:
    """The thumbs that stand at the moment, the earliest changed first; in the tenant's scope.

    One that was taken back is not among them any more. `since`: changed then or later. Collections
    are those the conversation searches now: its choice at the time is not kept.
    """
    given = Feedback.objects.filter(tenant_id=tenant_id).select_related("message__conversation")
    if since is not None:
        given = given.filter(updated_at__gte=since)
    found = list(given.order_by("updated_at", "id"))
    asked = Message.objects.filter(tenant_id=tenant_id).in_bulk(
        [each.message.in_reply_to for each in found]
    )
    citations = _citations_by_message(tenant_id, [each.message_id for each in found])
    for each in found:
        question = asked.get(each.message.in_reply_to)
        if question is not None:
            yield _given(each, question, citations.get(each.message_id, ()))


def _given(feedback: Feedback, question: Message, citations: Sequence[Citation]) -> FeedbackGiven:
    there = [each for each in citations if each.document_id is not None]
    searched = [uuid.UUID(each) for each in feedback.message.conversation.collection_ids]
    found_in = [each.document.collection_id for each in there if each.document is not None]
    return FeedbackGiven(
        message_id=feedback.message_id,
        question=question.searched_as or question.text,
        thumb=feedback.thumb,
        comment=feedback.comment,
        user_id=feedback.user_id,
        collection_ids=tuple(dict.fromkeys([*found_in, *searched])),
        citations=tuple(
            CitedPlace(each.document_id, each.char_start, each.char_end, each.cited)
            for each in there
            if each.document_id is not None
        ),
        updated_at=feedback.updated_at,
    )


def _earlier(tenant_id: uuid.UUID, question: Message) -> Iterator[tuple[Message, Message | None]]:
    """Earlier questions, oldest first, each with its latest answer that a model wrote."""
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
    for message in reversed(earlier):
        if message.role == MessageRole.QUESTION:
            yield message, answers.get(message.id)


def _feedback_of(access: Access, messages: list[Message]) -> QuerySet[Feedback]:
    return Feedback.objects.filter(
        tenant=access.tenant, user=access.user, message_id__in=[each.id for each in messages]
    )


def _citations_by_message(
    tenant_id: uuid.UUID, message_ids: list[uuid.UUID]
) -> dict[uuid.UUID, tuple[Citation, ...]]:
    grouped: dict[uuid.UUID, tuple[Citation, ...]] = {}
    found = Citation.objects.filter(tenant_id=tenant_id, message_id__in=message_ids)
    for citation in found.select_related("document").order_by("marker"):
        grouped[citation.message_id] = (*grouped.get(citation.message_id, ()), citation)
    return grouped


def _html(access: Access, message: Message, citations: tuple[Citation, ...]) -> str:
    if message.role != MessageRole.ANSWER:
        return ""
    sentences = [
        Sentence(s["start"], s["end"], tuple(s["markers"]), s["supported"]) for s in message.support
    ]
    urls = citation_urls(access, {c.marker: c.id for c in citations})
    return render_answer(message.text, sentences, urls)
