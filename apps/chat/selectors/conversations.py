"""One's own conversations, and nobody else's."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db.models import QuerySet

from apps.chat.models import Conversation
from apps.gateway.using import own_use
from apps.tenants.access import Access
from apps.tenants.amounts import format_amount


def conversations_of(access: Access) -> QuerySet[Conversation]:
    """One's own conversations, the latest first; archived ones too, deleted ones not."""
    return with_deleted_of(access).filter(deleted_at=None)


def with_deleted_of(access: Access) -> QuerySet[Conversation]:
    """Those besides that can still be brought back. For nothing but bringing them back."""
    return Conversation.objects.filter(tenant=access.tenant, user=access.user).order_by(
        "-updated_at"
    )


def get_conversation(access: Access, conversation_id: uuid.UUID) -> Conversation | None:
    """One's own conversation, or None."""
    return conversations_of(access).filter(id=conversation_id).first()


@dataclass(frozen=True)
class OwnLimit:
    """One of a member's own limits, in words."""

    label: str  # "Tokens a day"
    used: str  # "1,066 tokens", what calls in flight hold included
    amount: str
    is_near: bool


def own_limits(access: Access) -> list[OwnLimit]:
    """What binds this member alone, with what they have used of it."""
    return [
        OwnLimit(
            label=str(use.rule.measure.label),
            used=format_amount(use.rule.measure, use.used + use.reserved),
            amount=format_amount(use.rule.measure, use.rule.amount),
            is_near=use.is_near,
        )
        for use in own_use(access.tenant, access.user.id)
    ]
