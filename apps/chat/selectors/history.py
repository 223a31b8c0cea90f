"""What was said before a question, on its branch."""

from __future__ import annotations

import uuid
from itertools import zip_longest

from apps.chat.models import Message, MessageRole
from apps.chat.pipeline.types import Exchange
from apps.chat.selectors.branches import branches_of
from apps.inference.types import ChatTurn

HISTORY_MESSAGES = 12


# A question, and its answer where a model wrote one.
Earlier = list[tuple[Message, Message | None]]


def earlier_than(tenant_id: uuid.UUID, question: Message) -> Earlier:
    """Earlier questions of the branch, oldest first, each with its answer if a model wrote it."""
    branches = branches_of(tenant_id, question.conversation_id)
    path = branches.path_to(question.id)[:-1][-HISTORY_MESSAGES:]
    found = {m.id: m for m in Message.objects.filter(tenant_id=tenant_id, id__in=path)}
    messages = [found[key] for key in path if key in found]
    earlier: Earlier = []
    for asked, after in zip_longest(messages, messages[1:]):
        if asked.role == MessageRole.QUESTION:
            wrote = after is not None and after.kind == "generated" and bool(after.text)
            earlier.append((asked, after if wrote else None))
    return earlier


def exchanges_of(earlier: Earlier) -> tuple[Exchange, ...]:
    """Questions as they were searched for, answered or not, each with its answer."""
    return tuple(
        Exchange(asked.searched_as or asked.text, answer.text if answer else "")
        for asked, answer in earlier
    )


def turns_of(earlier: Earlier) -> tuple[ChatTurn, ...]:
    """What a model is shown of them: answered questions only."""
    turns: list[ChatTurn] = []
    for asked, answer in earlier:
        if answer is not None:
            turns += [ChatTurn("user", asked.text), ChatTurn("assistant", answer.text)]
    return tuple(turns)
