"""Thumbs: the reader's own, and those that wait for review."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from apps.chat.models import Citation, Feedback, Message
from apps.chat.selectors.citations import citations_by_message
from apps.tenants.access import Access


def get_feedback(access: Access, answer: Message) -> Feedback | None:
    """One's own thumb on an answer, or None."""
    return Feedback.objects.filter(tenant=access.tenant, message=answer, user=access.user).first()


def feedback_of(access: Access, messages: list[Message]) -> QuerySet[Feedback]:
    """The reader's own thumbs on these messages."""
    return Feedback.objects.filter(
        tenant=access.tenant, user=access.user, message_id__in=[each.id for each in messages]
    )


def reasons_given(tenant_id: uuid.UUID, answer_id: uuid.UUID) -> list[str]:
    """The codes of the reasons of whoever gave the answer a thumb; for who reviews thumbs."""
    given = Feedback.objects.filter(tenant_id=tenant_id, message_id=answer_id)
    return [code for reasons in given.values_list("reasons", flat=True) for code in reasons]


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
    given = Feedback.objects.filter(
        tenant_id=tenant_id, message__conversation__deleted_at=None
    ).select_related("message__conversation")
    if since is not None:
        given = given.filter(updated_at__gte=since)
    found = list(given.order_by("updated_at", "id"))
    asked = Message.objects.filter(tenant_id=tenant_id).in_bulk(
        [each.message.in_reply_to for each in found]
    )
    citations = citations_by_message(tenant_id, [each.message_id for each in found])
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
