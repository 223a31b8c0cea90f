"""What was said before a question, on its branch."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import zip_longest

from apps.chat.models import Message, MessageRole
from apps.chat.pipeline.types import Exchange
from apps.chat.selectors.branches import branches_of
from apps.inference.types import ChatTurn

HISTORY_MESSAGES = 12


def exchanges_before(tenant_id: uuid.UUID, question: Message) -> tuple[Exchange, ...]:
    """Earlier questions of the conversation as they were searched for, oldest first, answered or
    not, each with the answer of its branch where a model wrote it."""
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
    """Earlier questions of the branch, oldest first, each with its answer if a model wrote it."""
    branches = branches_of(tenant_id, question.conversation_id)
    path = branches.path_to(question.id)[:-1][-HISTORY_MESSAGES:]
    found = {m.id: m for m in Message.objects.filter(tenant_id=tenant_id, id__in=path)}
    earlier = [found[key] for key in path if key in found]
    for asked, after in zip_longest(earlier, earlier[1:]):
        if asked.role == MessageRole.QUESTION:
            wrote = after is not None and after.kind == "generated" and bool(after.text)
            yield asked, after if wrote else None
