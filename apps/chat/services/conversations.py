"""Keeping one's own conversations in order."""

from __future__ import annotations

import uuid

from apps.chat.errors import UnknownConversation
from apps.chat.models import Conversation
from apps.chat.selectors import get_conversation
from apps.telemetry.services import record_audit
from apps.tenants.access import Access

TITLE_CHARS = 80


def rename_conversation(*, access: Access, conversation_id: uuid.UUID, title: str) -> None:
    """Give one's own conversation another title; an empty one is ignored."""
    conversation = own_conversation(access, conversation_id)
    title = " ".join(title.replace("\x00", "").split())[:TITLE_CHARS]
    if title:
        conversation.title = title
        conversation.save(update_fields=["title"])


def delete_conversation(*, access: Access, conversation_id: uuid.UUID) -> None:
    """Remove one's own conversation with its messages and citations."""
    own_conversation(access, conversation_id).delete()
    record_audit(
        action="conversation.deleted",
        tenant_id=access.tenant.id,
        actor_id=access.user.id,
        subject_id=conversation_id,
    )


def own_conversation(access: Access, conversation_id: uuid.UUID) -> Conversation:
    """One's own conversation; raises UnknownConversation."""
    conversation = get_conversation(access, conversation_id)
    if conversation is None:
        raise UnknownConversation("That conversation is no longer there. Start a new one.")
    return conversation
