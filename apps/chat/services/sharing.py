"""Showing a conversation to the other members of the tenant, and no longer showing it."""

from __future__ import annotations

import uuid

from django.utils import timezone
from django.utils.translation import gettext as _

from apps.chat.errors import UnknownMessage
from apps.chat.models import Share
from apps.chat.selectors.shares import current_leaf, shares_of
from apps.chat.services.conversations import audit, own_conversation
from apps.tenants.access import Access
from apps.tenants.scope import tenant_scope


def share_conversation(*, access: Access, conversation_id: uuid.UUID) -> Share:
    """Share the branch of one's own conversation that is shown, as it stands now.

    One that is shared already keeps its address and shows what has come since. Raises
    UnknownConversation, or UnknownMessage where nothing has been asked yet.
    """
    with tenant_scope(access.tenant.id):
        conversation = own_conversation(access, conversation_id)
        leaf = current_leaf(access, conversation)
        if leaf is None:
            raise UnknownMessage(_("There is nothing to share yet. Ask a question first."))
        share, created = Share.objects.get_or_create(
            tenant=access.tenant,
            conversation=conversation,
            revoked_at=None,
            defaults={"user": access.user, "leaf_id": leaf},
        )
        if share.leaf_id != leaf:
            share.leaf_id = leaf
            share.save(update_fields=["leaf_id"])
            created = True
        if created:
            audit("conversation.shared", access, conversation_id)
        return share


def revoke_share(*, access: Access, share_id: uuid.UUID) -> bool:
    """Stop showing a conversation, at once. Whether there was such a share of one's own."""
    with tenant_scope(access.tenant.id):
        share = shares_of(access).filter(id=share_id).first()
        if share is None:
            return False
        share.revoked_at = timezone.now()
        share.save(update_fields=["revoked_at"])
        audit("conversation.unshared", access, share.conversation_id)
        return True
