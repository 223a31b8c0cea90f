"""The messages of a conversation, as its page shows them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from django.utils import timezone

from apps.chat.models import Citation, Conversation, Feedback, Message, MessageRole, MessageState
from apps.chat.pipeline.types import read_sentence
from apps.chat.rendering import render_answer
from apps.chat.selectors.branches import Branches, branches_of, shown_path
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
    # The branches at this place, oldest first; a comparison is one.
    siblings: tuple[uuid.UUID, ...] = ()
    position: int = 1  # of this one among them, from 1
    # The answers of a comparison, this one among them, as they stand side by side; else empty.
    compared: tuple[MessageView, ...] = ()

    @property
    def is_answer(self) -> bool:
        return self.message.role == MessageRole.ANSWER

    @property
    def previous(self) -> uuid.UUID | None:
        """The branch before this one."""
        return self.siblings[self.position - 2] if self.position > 1 else None

    @property
    def next(self) -> uuid.UUID | None:
        """The branch after this one."""
        return self.siblings[self.position] if self.position < len(self.siblings) else None


def thread_of(
    access: Access, conversation: Conversation, leaf_id: uuid.UUID | None = None
) -> list[MessageView]:
    """The branch of the conversation that is shown, or the one that `leaf_id` is on, in order."""
    branches = branches_of(access.tenant.id, conversation.id)
    shown = shown_path(branches, leaf_id or conversation.leaf_id)
    entries = [[each.id for each in branches.entry_of(branches.node(key))] for key in shown]
    views = _views_of(access, {key for entry in entries for key in entry})
    placed = {key: _placed(view, branches) for key, view in views.items()}
    return [
        replace(placed[key], compared=tuple(placed[each] for each in entry if each in placed))
        if len(entry) > 1
        else placed[key]
        for key, entry in zip(shown, entries, strict=True)
        if key in placed  # one that was deleted in between is not
    ]


def view_of(access: Access, answer: Message) -> MessageView:
    """One message of one's own as the page shows it."""
    branches = branches_of(access.tenant.id, answer.conversation_id)
    return _placed(_views_of(access, {answer.id})[answer.id], branches)


def branch_of(conversation: Conversation, leaf_id: uuid.UUID | None = None) -> list[Message]:
    """The messages of one branch in order, for those who have been let in to read them.

    The branch that is shown unless `leaf_id` names another. Of a comparison, the side it is on.
    """
    branches = branches_of(conversation.tenant_id, conversation.id)
    shown = shown_path(branches, leaf_id or conversation.leaf_id)
    found = Message.objects.filter(tenant_id=conversation.tenant_id, id__in=shown)
    by_id = {message.id: message for message in found}
    return [by_id[key] for key in shown if key in by_id]


def _placed(view: MessageView, branches: Branches) -> MessageView:
    key = view.message.id
    siblings = branches.siblings(key)
    position = siblings.index(branches.named(key)) + 1
    return replace(view, siblings=tuple(siblings), position=position)


def _views_of(access: Access, ids: set[uuid.UUID]) -> dict[uuid.UUID, MessageView]:
    """Four queries, however many messages."""
    found = Message.objects.filter(tenant=access.tenant, id__in=ids)
    messages = {message.id: message for message in found}
    citations = citations_by_message(access.tenant.id, list(messages))
    thumbs = {each.message_id: each for each in feedback_of(access, list(messages.values()))}
    searched = _searched_as(access, messages)
    return {
        key: MessageView(
            message,
            _html(access, message, citations.get(key, ())),
            citations.get(key, ()),
            state_of(message),
            searched_as=searched.get(message.in_reply_to, "") if message.in_reply_to else "",
            feedback=thumbs.get(key),
        )
        for key, message in messages.items()
    }


def _searched_as(access: Access, messages: dict[uuid.UUID, Message]) -> dict[uuid.UUID, str]:
    """What was searched for in place of the questions of these answers."""
    answers = [m for m in messages.values() if m.role == MessageRole.ANSWER]
    asked = {m.in_reply_to for m in answers if m.in_reply_to is not None}
    found = Message.objects.filter(
        tenant=access.tenant, id__in=asked, role=MessageRole.QUESTION
    ).exclude(searched_as="")
    return dict(found.values_list("id", "searched_as"))


def get_answer(access: Access, answer_id: uuid.UUID) -> Message | None:
    """An answer in one of one's own conversations, or None."""
    return Message.objects.filter(
        tenant=access.tenant,
        id=answer_id,
        role=MessageRole.ANSWER,
        conversation__user=access.user,
        conversation__deleted_at=None,
    ).first()


def get_question(access: Access, answer: Message) -> Message | None:
    """The question of one of one's own answers."""
    if answer.in_reply_to is None:
        return None
    return Message.objects.filter(
        tenant=access.tenant,
        id=answer.in_reply_to,
        conversation__user=access.user,
        conversation__deleted_at=None,
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
    return html_of(message, citation_urls(access, {c.marker: c.id for c in citations}))


def html_of(answer: Message, citation_urls: Mapping[int, tuple[str, str]]) -> str:
    """An answer as sanitised HTML; `citation_urls` maps a marker to a citation's id and address."""
    sentences = [read_sentence(each) for each in answer.support]
    return render_answer(answer.text, sentences, citation_urls)
