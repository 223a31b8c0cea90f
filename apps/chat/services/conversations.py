"""Keeping one's own conversations in order: titles, pins and the archive."""

from __future__ import annotations

import uuid
from functools import partial

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.chat.errors import UnknownConversation
from apps.chat.models import Conversation, TitleBy
from apps.chat.selectors import get_conversation
from apps.chat.streams.telling import tell_user
from apps.telemetry.services import record_audit
from apps.tenants.access import Access
from apps.tenants.scope import tenant_scope

TITLE_CHARS = 80


def rename_conversation(*, access: Access, conversation_id: uuid.UUID, title: str) -> str:
    """Give one's own conversation another title, which nothing replaces; an empty one is ignored.

    Returns the title that it has now.
    """
    with tenant_scope(access.tenant.id):
        conversation = own_conversation(access, conversation_id)
        title = one_line(title, TITLE_CHARS)
        if title:
            conversation.title, conversation.title_by = title, TitleBy.PERSON
            conversation.save(update_fields=["title", "title_by"])
            frame = {"type": "conversation.titled", "conversation": str(conversation.id)}
            tell_later(access, {**frame, "title": title})
        return conversation.title


def pin_conversation(*, access: Access, conversation_id: uuid.UUID, pinned: bool) -> None:
    """Keep it above the others, or no longer."""
    with tenant_scope(access.tenant.id):
        conversation = own_conversation(access, conversation_id)
        conversation.pinned_at = timezone.now() if pinned else None
        conversation.save(update_fields=["pinned_at"])
        tell_listed(access, conversation.id)


def archive_conversation(*, access: Access, conversation_id: uuid.UUID, archived: bool) -> None:
    """Put it out of the list, or back to where it was."""
    with tenant_scope(access.tenant.id):
        conversation = own_conversation(access, conversation_id)
        conversation.archived_at = timezone.now() if archived else None
        conversation.save(update_fields=["archived_at"])
        tell_listed(access, conversation.id)


def own_conversation(access: Access, conversation_id: uuid.UUID) -> Conversation:
    """One's own conversation; raises UnknownConversation."""
    conversation = get_conversation(access, conversation_id)
    if conversation is None:
        raise UnknownConversation(_("That conversation is no longer there. Start a new one."))
    return conversation


def one_line(text: str, limit: int) -> str:
    """What was typed as a name: without line ends, NUL bytes and outer space, and not too long."""
    return " ".join(text.replace("\x00", "").split())[:limit].rstrip()


def audit(action: str, access: Access, conversation_id: uuid.UUID) -> None:
    """Note what was done with one's own conversation."""
    record_audit(
        action=action,
        tenant_id=access.tenant.id,
        actor_id=access.user.id,
        subject_id=conversation_id,
    )


def tell_listed(access: Access, conversation_id: uuid.UUID | None) -> None:
    """Have this person's pages read their list anew, once it is true."""
    named = str(conversation_id) if conversation_id else None
    tell_later(access, {"type": "conversation.listed", "conversation": named})


def tell_later(access: Access, frame: dict[str, object]) -> None:
    """Send `frame` to this person's pages after the transaction, if it succeeds."""
    told = partial(tell_user, access.tenant.id, access.user.pk, frame)
    transaction.on_commit(told, robust=True)
