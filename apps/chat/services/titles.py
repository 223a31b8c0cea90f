"""Titles that the model makes."""

from __future__ import annotations

import uuid

from django.db.models import QuerySet

from apps.chat.models import Conversation, TitleBy
from apps.chat.services.conversations import tell_later
from apps.gateway.using import uses_of
from apps.tenants.access import Access
from apps.tenants.limits import STOCK_MEASURES, limits_for
from apps.tenants.models import Measure
from apps.tenants.scope import tenant_scope

# Of the tokens a minute: a title may take as much of them without being missed.
_SMALL_SHARE = 20


def wants_title(*, access: Access, conversation_id: uuid.UUID, tokens: int) -> bool:
    """Whether the conversation has the rule's title still, and no limit comes near.

    `tokens` is the most that making one may use.
    """
    with tenant_scope(access.tenant.id):
        if not _titled_by_rule(access, conversation_id).exists():
            return False
        rules = limits_for(access.tenant.id, user_id=access.user.pk)
        per_minute = [rule for rule in rules if rule.measure == Measure.TOKENS_PER_MINUTE]
        if any(rule.amount < _SMALL_SHARE * tokens for rule in per_minute):
            return False
        budgets = [rule for rule in rules if rule.measure not in STOCK_MEASURES]
        return not any(use.is_near for use in uses_of(access.tenant, budgets))


def store_title(*, access: Access, conversation_id: uuid.UUID, title: str) -> bool:
    """Put a model's title in the place of the rule's, and tell the person's pages.

    False where somebody has given it another in the meantime, which stays.
    """
    with tenant_scope(access.tenant.id):
        conversation = _titled_by_rule(access, conversation_id)
        if not conversation.update(title=title, title_by=TitleBy.MODEL):
            return False
        named = {"conversation": str(conversation_id), "title": title}
        tell_later(access, {"type": "conversation.titled", **named})
        return True


def _titled_by_rule(access: Access, conversation_id: uuid.UUID) -> QuerySet[Conversation]:
    return Conversation.objects.filter(
        tenant=access.tenant,
        user=access.user,
        id=conversation_id,
        title_by=TitleBy.RULE,
        deleted_at=None,
    )
