"""Storing questions: a question is stored before it is answered."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from apps.chat.errors import (
    NoCollection,
    QuestionEmpty,
    QuestionTooLong,
    UnknownAnswer,
    UnknownCollection,
)
from apps.chat.models import Conversation, Message, MessageRole, MessageState
from apps.chat.pipeline.types import AnswerRequest
from apps.chat.selectors import exchanges_before, get_answer, history_before, state_of
from apps.chat.services.conversations import TITLE_CHARS, own_conversation
from apps.documents.selectors import collections_for
from apps.gateway.errors import UnknownModel
from apps.gateway.service import find_model
from apps.gateway.types import Caller, Model, Source
from apps.tenants.access import Access
from apps.tenants.scope import tenant_scope


@dataclass(frozen=True)
class StartedAnswer:
    """What the runner of an answer needs to know; `request` goes to the pipeline."""

    conversation_id: uuid.UUID
    title: str
    question_id: uuid.UUID
    answer_id: uuid.UUID
    request: AnswerRequest
    caller: Caller

    def citation_id(self, marker: int) -> uuid.UUID:
        """Known before the row is stored: a source can be named while it is being written."""
        return uuid.uuid5(self.answer_id, str(marker))


def clean_question(text: str) -> str:
    """The question without NUL bytes and outer white space; raises when empty or too long."""
    question = text.replace("\x00", "").strip()
    if not question:
        raise QuestionEmpty("Type a question first.")
    limit = settings.QUESTION_MAX_CHARS
    if len(question) > limit:
        raise QuestionTooLong(
            f"The question has {len(question):,} characters; the limit is {limit:,}. Shorten it."
        )
    return question


def start_answer(
    *,
    access: Access,
    question: str,
    conversation_id: uuid.UUID | None,
    collection_ids: Sequence[uuid.UUID],
    model_alias: str,
) -> StartedAnswer:
    """Store the question and an empty answer; say what the pipeline is to do."""
    question = clean_question(question)
    model = _pick_model(model_alias)
    with tenant_scope(access.tenant.id):
        picked = _pick_collections(access, collection_ids)
        conversation = _open_conversation(access, conversation_id, question)
        conversation.collection_ids = [str(each) for each in picked]
        conversation.model = model.alias if model else ""
        conversation.save(update_fields=["collection_ids", "model", "updated_at"])
        asked = Message.objects.create(
            tenant=access.tenant,
            conversation=conversation,
            role=MessageRole.QUESTION,
            text=question,
        )
        return _begin(access, conversation, asked, picked, model)


def restart_answer(*, access: Access, answer_id: uuid.UUID, model_alias: str) -> StartedAnswer:
    """Answer the question of `answer_id` once more; the earlier answer stays, the latest shows."""
    model = _pick_model(model_alias)
    with tenant_scope(access.tenant.id):
        old = get_answer(access, answer_id)
        asked = None
        if old is not None and old.in_reply_to is not None:
            asked = Message.objects.filter(tenant=access.tenant, id=old.in_reply_to).first()
        if old is None or asked is None or state_of(old) == MessageState.STREAMING:
            raise UnknownAnswer("That answer is no longer there. Reload the page.")
        conversation = old.conversation
        picked = _pick_collections(
            access, [uuid.UUID(each) for each in conversation.collection_ids]
        )
        return _begin(access, conversation, asked, picked, model, anew=True)


def _pick_model(alias: str) -> Model | None:
    """The model asked for; None where no server is configured at all (passages are quoted)."""
    try:
        return find_model(alias)
    except UnknownModel:
        if alias:
            raise
        return None


def _pick_collections(access: Access, wanted: Sequence[uuid.UUID]) -> tuple[uuid.UUID, ...]:
    allowed = set(collections_for(access).values_list("id", flat=True))
    if not wanted:
        raise NoCollection("Pick at least one collection to search.")
    if unknown := [each for each in wanted if each not in allowed]:
        raise UnknownCollection(
            f"{len(unknown)} of the picked collections is not open to you or no longer there. "
            "Reload the page and pick again."
        )
    return tuple(dict.fromkeys(wanted))


def _open_conversation(
    access: Access, conversation_id: uuid.UUID | None, question: str
) -> Conversation:
    if conversation_id is not None:
        return own_conversation(access, conversation_id)
    title = " ".join(question.split())
    if len(title) > TITLE_CHARS:
        title = title[: TITLE_CHARS - 1].rsplit(" ", 1)[0] + "…"
    return Conversation.objects.create(tenant=access.tenant, user=access.user, title=title)


def _begin(
    access: Access,
    conversation: Conversation,
    asked: Message,
    collection_ids: tuple[uuid.UUID, ...],
    model: Model | None,
    *,
    anew: bool = False,
) -> StartedAnswer:
    answer = Message.objects.create(
        tenant=access.tenant,
        conversation=conversation,
        role=MessageRole.ANSWER,
        state=MessageState.STREAMING,
        in_reply_to=asked.id,
        model=model.alias if model else "",
    )
    request = AnswerRequest(
        tenant_id=access.tenant.id,
        question=asked.text,
        collection_ids=collection_ids,
        model=model,
        history=history_before(access.tenant.id, asked),
        before=exchanges_before(access.tenant.id, asked),
        question_id=asked.id,
        anew=anew,
    )
    caller = Caller(
        tenant_id=access.tenant.id,
        time_zone=access.tenant.time_zone,
        source=Source.CHAT,
        user_id=access.user.id,
        conversation_id=conversation.id,
        collection_ids=collection_ids,
    )
    return StartedAnswer(conversation.id, conversation.title, asked.id, answer.id, request, caller)
