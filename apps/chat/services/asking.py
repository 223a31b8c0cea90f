"""Storing questions: a question is stored before it is answered."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from django.conf import settings
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.chat.errors import (
    NoCollection,
    NothingToContinue,
    QuestionEmpty,
    QuestionTooLong,
    UnknownAnswer,
    UnknownCollection,
    UnknownMessage,
)
from apps.chat.models import Conversation, Message, MessageRole, MessageState
from apps.chat.pipeline.types import AnswerRequest, Beginning
from apps.chat.selectors import (
    branches_of,
    earlier_than,
    exchanges_of,
    get_answer,
    get_question,
    passages_of,
    state_of,
    turns_of,
)
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
    after: uuid.UUID | None = None  # the answer that the question follows; None: it is the first
    model: str = ""  # the alias; "" where passages are quoted
    comparison: uuid.UUID | None = None  # shared by answers that are written side by side
    continues: uuid.UUID | None = None  # the broken-off answer that this one goes on from

    @property
    def question(self) -> str:
        """As it was asked."""
        return self.request.question

    def citation_id(self, marker: int) -> uuid.UUID:
        """Known before the row is stored: a source can be named while it is being written."""
        return uuid.uuid5(self.answer_id, str(marker))


def clean_question(text: str) -> str:
    """The question without NUL bytes and outer white space; raises when empty or too long."""
    question = text.replace("\x00", "").strip()
    if not question:
        raise QuestionEmpty(_("Type a question first."))
    limit = settings.QUESTION_MAX_CHARS
    if len(question) > limit:
        raise QuestionTooLong(
            _("The question has %(length)s characters; the limit is %(limit)s. Shorten it.")
            % {
                "length": number_format(len(question), force_grouping=True),
                "limit": number_format(limit, force_grouping=True),
            }
        )
    return question


def start_answer(
    *,
    access: Access,
    question: str,
    conversation_id: uuid.UUID | None,
    after: uuid.UUID | None,
    collection_ids: Sequence[uuid.UUID],
    model_aliases: Sequence[str],
) -> tuple[StartedAnswer, ...]:
    """Store the question and an empty answer a model; say what the pipeline is to do.

    `after` is the answer that the question follows, None for a first question; where that answer
    has been followed before, or there is a first question already, this is a branch beside it.
    Several models answer side by side; one that is named twice answers once.
    """
    question = clean_question(question)
    models = _pick_models(model_aliases)
    with tenant_scope(access.tenant.id):
        picked = _pick_collections(access, collection_ids)
        conversation = _open_conversation(access, conversation_id, question)
        _check_after(access, conversation, after)
        asked = Message.objects.create(
            tenant=access.tenant,
            conversation=conversation,
            role=MessageRole.QUESTION,
            text=question,
            in_reply_to=after,
        )
        comparison = uuid.uuid4() if len(models) > 1 else None
        begin = partial(_begin, access, conversation, asked, picked, comparison=comparison)
        started = tuple(begin(model) for model in models)
        conversation.collection_ids = [str(each) for each in picked]
        conversation.model = models[0].alias if models[0] else ""
        conversation.leaf_id = started[0].answer_id
        conversation.save(update_fields=["collection_ids", "model", "leaf_id", "updated_at"])
        return started


def restart_answer(*, access: Access, answer_id: uuid.UUID, model_alias: str) -> StartedAnswer:
    """Answer the question of `answer_id` once more; the earlier answer stays as a branch."""
    (model,) = _pick_models([model_alias])
    with tenant_scope(access.tenant.id):
        _old, asked = _ended_answer(access, answer_id)
        conversation = asked.conversation
        picked = _pick_collections(
            access, [uuid.UUID(each) for each in conversation.collection_ids]
        )
        started = _begin(access, conversation, asked, picked, model, anew=True)
        _show(conversation, started.answer_id)
        return started


def continue_answer(*, access: Access, answer_id: uuid.UUID) -> StartedAnswer:
    """Go on where an answer was stopped or broke off; the earlier answer stays as a branch.

    The same model is given the same passages, those that the reader may still read. Raises
    NothingToContinue where the answer is whole, or has no text.
    """
    with tenant_scope(access.tenant.id):
        old, asked = _ended_answer(access, answer_id)
        broke_off = state_of(old) in (MessageState.STOPPED, MessageState.INTERRUPTED)
        if not broke_off or not old.text.strip() or old.kind != "generated":
            raise NothingToContinue(_("That answer did not break off, so there is nothing to add."))
        (model,) = _pick_models([old.model])
        picked = tuple(uuid.UUID(each) for each in asked.conversation.collection_ids)
        beginning = _beginning_of(access, old, asked)
        started = _begin(
            access, asked.conversation, asked, picked, model, old=old, beginning=beginning
        )
        _show(asked.conversation, started.answer_id)
        return started


def show_branch(*, access: Access, conversation_id: uuid.UUID, message_id: uuid.UUID) -> None:
    """Show the branch that a message is on, to where it was written in last.

    Raises UnknownConversation or UnknownMessage.
    """
    with tenant_scope(access.tenant.id):
        conversation = own_conversation(access, conversation_id)
        branches = branches_of(access.tenant.id, conversation.id)
        if message_id not in branches:
            raise UnknownMessage(_("That message is no longer there. Reload the page."))
        _show(conversation, branches.newest_below(message_id))


def _ended_answer(access: Access, answer_id: uuid.UUID) -> tuple[Message, Message]:
    """One's own answer that is not being written, with its question. Raises UnknownAnswer."""
    old = get_answer(access, answer_id)
    asked = get_question(access, old) if old is not None else None
    if old is None or asked is None or state_of(old) == MessageState.STREAMING:
        raise UnknownAnswer(_("That answer is no longer there. Reload the page."))
    return old, asked


def _beginning_of(access: Access, old: Message, asked: Message) -> Beginning:
    passages = passages_of(access, old)
    if not any(passage.text for passage in passages):
        raise NothingToContinue(
            _("The passages of that answer are no longer open to you. Ask the question anew.")
        )
    cited = max((n for sentence in old.support for n in sentence["markers"]), default=0)
    return Beginning(old.text, passages, cited, asked.searched_as)


def _check_after(access: Access, conversation: Conversation, after: uuid.UUID | None) -> None:
    if after is None:
        return
    earlier = get_answer(access, after)
    if earlier is None or earlier.conversation_id != conversation.id:
        raise UnknownMessage(_("The answer that this follows is no longer there. Reload the page."))


def _show(conversation: Conversation, message_id: uuid.UUID) -> None:
    conversation.leaf_id = message_id
    conversation.save(update_fields=["leaf_id"])


def _pick_models(aliases: Sequence[str]) -> list[Model | None]:
    """Each model once, in the order asked for; the default where none is named."""
    found = {model.alias if model else "": model for model in map(_pick_model, aliases or [""])}
    return list(found.values())


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
        raise NoCollection(_("Pick at least one collection to search."))
    if unknown := [each for each in wanted if each not in allowed]:
        raise UnknownCollection(
            ngettext(
                "%(count)s of the picked collections is not open to you or no longer there. "
                "Reload the page and pick again.",
                "%(count)s of the picked collections are not open to you or no longer there. "
                "Reload the page and pick again.",
                len(unknown),
            )
            % {"count": len(unknown)}
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
    comparison: uuid.UUID | None = None,
    anew: bool = False,
    old: Message | None = None,
    beginning: Beginning | None = None,
) -> StartedAnswer:
    """Store the empty answer."""
    alias = model.alias if model else ""
    answer = Message.objects.create(
        tenant=access.tenant,
        conversation=conversation,
        role=MessageRole.ANSWER,
        state=MessageState.STREAMING,
        in_reply_to=asked.id,
        model=alias,
        comparison=comparison,
        continues=old.id if old else None,
    )
    earlier = earlier_than(access.tenant.id, asked)
    request = AnswerRequest(
        tenant_id=access.tenant.id,
        question=asked.text,
        collection_ids=collection_ids,
        model=model,
        history=turns_of(earlier),
        before=exchanges_of(earlier),
        question_id=asked.id,
        anew=anew,
        beginning=beginning,
    )
    return StartedAnswer(
        conversation.id,
        conversation.title,
        asked.id,
        answer.id,
        request,
        _caller(access, conversation, collection_ids),
        after=asked.in_reply_to,
        model=alias,
        comparison=comparison,
        continues=answer.continues,
    )


def _caller(
    access: Access, conversation: Conversation, collection_ids: tuple[uuid.UUID, ...]
) -> Caller:
    return Caller(
        tenant_id=access.tenant.id,
        time_zone=access.tenant.time_zone,
        source=Source.CHAT,
        user_id=access.user.id,
        conversation_id=conversation.id,
        collection_ids=collection_ids,
    )
