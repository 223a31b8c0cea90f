"""What was said before a question."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from apps.chat.models import Message, MessageRole
from apps.chat.pipeline.types import Exchange
from apps.inference.types import ChatTurn

HISTORY_MESSAGES = 12


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
