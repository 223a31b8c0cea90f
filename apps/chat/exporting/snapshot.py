"""What is stored of a conversation, all branches, as the JSON file has it."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from django.utils import timezone

from apps.chat.exporting.types import (
    FORMAT,
    VERSION,
    ExportedCitation,
    ExportedConversation,
    ExportedFeedback,
    ExportedMessage,
    ExportedSentence,
)
from apps.chat.models import Citation, Conversation, Feedback, Message
from apps.chat.pipeline.types import read_sentence
from apps.chat.selectors.branches import branches_of, shown_path
from apps.chat.selectors.citations import citations_by_message
from apps.chat.selectors.feedback import feedback_of
from apps.chat.selectors.threads import state_of
from apps.tenants.access import Access


def snapshot_of(access: Access, conversation: Conversation) -> ExportedConversation:
    """One's own conversation, in four queries; tokens and cost for those who may see them."""
    rows = Message.objects.filter(tenant=access.tenant, conversation=conversation)
    messages = list(rows.order_by("created_at"))
    shown = _shown(conversation)
    citations = citations_by_message(access.tenant.id, [message.id for message in messages])
    thumbs = {each.message_id: each for each in feedback_of(access, messages)}
    return {
        "format": FORMAT,
        "version": VERSION,
        "id": str(conversation.id),
        "title": conversation.title,
        "title_by": conversation.title_by,
        "collection_ids": [str(each) for each in conversation.collection_ids],
        "model": conversation.model,
        "leaf_id": _id(conversation.leaf_id),
        "created_at": _iso(conversation.created_at),
        "updated_at": _iso(conversation.updated_at),
        "exported_at": _iso(timezone.now()),
        "messages": [
            _message(
                message,
                shown=message.id in shown,
                citations=citations.get(message.id, ()),
                feedback=thumbs.get(message.id),
                with_use=access.may_see_hops,
            )
            for message in messages
        ],
    }


def _shown(conversation: Conversation) -> set[uuid.UUID]:
    """The branch that is shown, with both sides of its comparisons."""
    branches = branches_of(conversation.tenant_id, conversation.id)
    path = shown_path(branches, conversation.leaf_id)
    return {node.id for key in path for node in branches.entry_of(branches.node(key))}


def _message(
    message: Message,
    *,
    shown: bool,
    citations: tuple[Citation, ...],
    feedback: Feedback | None,
    with_use: bool,
) -> ExportedMessage:
    return {
        "id": str(message.id),
        "role": message.role,
        "in_reply_to": _id(message.in_reply_to),
        "shown": shown,
        "state": state_of(message),
        "text": message.text,
        "searched_as": message.searched_as,
        "comparison": _id(message.comparison),
        "continues": _id(message.continues),
        "model": message.model,
        "kind": message.kind,
        "notices": [
            {"code": str(each.get("code", "")), "message": str(each.get("message", ""))}
            for each in message.notices
        ],
        "citations": [_citation(each) for each in citations],
        "sentences": [_sentence(each) for each in message.support],
        "prompt_tokens": message.prompt_tokens if with_use else None,
        "completion_tokens": message.completion_tokens if with_use else None,
        "tokens_estimated": message.tokens_estimated and with_use,
        "cost_micros": message.cost_micros if with_use else None,
        "cache": message.cache,
        "follow_ups": [str(each) for each in message.follow_ups],
        "feedback": _feedback(feedback) if feedback else None,
        "created_at": _iso(message.created_at),
        "finished_at": _iso(message.finished_at) if message.finished_at else None,
    }


def _citation(citation: Citation) -> ExportedCitation:
    return {
        "number": citation.marker,
        "cited": citation.cited,
        "document": citation.document_name,
        "document_id": _id(citation.document_id),
        "heading": citation.heading_path,
        "page_first": citation.page_first,
        "page_last": citation.page_last,
        "char_start": citation.char_start,
        "char_end": citation.char_end,
        "score": citation.score,
    }


def _sentence(stored: dict[str, object]) -> ExportedSentence:
    sentence = read_sentence(stored)
    return {
        "start": sentence.start,
        "end": sentence.end,
        "citations": list(sentence.markers),
        "supported": sentence.supported,
        "reason": sentence.reason,
    }


def _feedback(feedback: Feedback) -> ExportedFeedback:
    return {
        "thumb": "up" if feedback.thumb > 0 else "down",
        "reasons": [str(each) for each in feedback.reasons],
        "comment": feedback.comment,
        "given_at": _iso(feedback.updated_at),
    }


def _id(value: uuid.UUID | None) -> str | None:
    return str(value) if value else None


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
