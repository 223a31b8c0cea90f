"""Deleting conversations: gone from sight at once, gone for good when the time to undo is over."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.utils import timezone
from django.utils.translation import gettext as _

from apps.chat.errors import UnknownConversation
from apps.chat.models import Conversation
from apps.chat.selectors.conversations import with_deleted_of
from apps.chat.services.conversations import audit, own_conversation, tell_listed
from apps.tenants.access import Access
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

# The page offers to undo for 20 s, and longer while the offer is pointed at or has the focus.
UNDO = timedelta(minutes=5)
_PURGED_AT_ONCE = 100  # of a tenant in a transaction: messages and citations go along


def delete_conversation(*, access: Access, conversation_id: uuid.UUID) -> str:
    """Hide one's own conversation everywhere, to be removed for good later. Returns its title."""
    with tenant_scope(access.tenant.id):
        conversation = own_conversation(access, conversation_id)
        conversation.deleted_at = timezone.now()
        conversation.save(update_fields=["deleted_at"])
        audit("conversation.deleted", access, conversation_id)
        tell_listed(access, conversation.id)
        return conversation.title


def restore_conversation(*, access: Access, conversation_id: uuid.UUID) -> None:
    """Bring back what was deleted. Raises UnknownConversation where it is gone for good."""
    with tenant_scope(access.tenant.id):
        own = with_deleted_of(access).filter(id=conversation_id)
        if own.filter(deleted_at=None).exists():
            return
        if not own.filter(deleted_at__gt=timezone.now() - UNDO).update(deleted_at=None):
            raise UnknownConversation(_("That conversation is gone for good."))
        audit("conversation.restored", access, conversation_id)
        tell_listed(access, conversation_id)


def purge_deleted() -> int:
    """Remove for good, in all tenants, what was deleted longer ago than it can be undone.

    Returns how many conversations. One transaction a tenant and slice; run it as often as wanted.
    """
    before = timezone.now() - UNDO
    return sum(_purge(tenant, before) for tenant in Tenant.objects.only("id").iterator())


def _purge(tenant: Tenant, before: object) -> int:
    purged = 0
    while True:
        with tenant_scope(tenant.id):
            over = Conversation.objects.filter(tenant=tenant, deleted_at__lte=before)
            ids = list(over.values_list("id", flat=True)[:_PURGED_AT_ONCE])
            if ids:
                # The condition again: one that was brought back meanwhile stays.
                purged += over.filter(id__in=ids).delete()[0]
        if len(ids) < _PURGED_AT_ONCE:
            return purged
