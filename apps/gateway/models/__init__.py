"""The gateway's tables. None holds text of a tenant but the response cache, which is under
row-level security; everything else is read by operations across tenants."""

from __future__ import annotations

from apps.gateway.models.alerts import AlertTarget, BudgetAlert
from apps.gateway.models.caching import CachedResponse, CachePolicy, SemanticHit
from apps.gateway.models.catalogue import (
    GatewayModel,
    GatewayRoute,
    GatewayUpstream,
    Price,
    RouteApproval,
)
from apps.gateway.models.ledger import LedgerEntry
from apps.gateway.models.rollups import (
    EVERYBODY,
    LedgerConversation,
    LedgerDay,
    LedgerHour,
    RollupMark,
    RollupZone,
)
from apps.gateway.models.spending import BudgetCounter, Reservation

__all__ = [
    "EVERYBODY",
    "AlertTarget",
    "BudgetAlert",
    "BudgetCounter",
    "CachePolicy",
    "CachedResponse",
    "GatewayModel",
    "GatewayRoute",
    "GatewayUpstream",
    "LedgerConversation",
    "LedgerDay",
    "LedgerEntry",
    "LedgerHour",
    "Price",
    "Reservation",
    "RollupMark",
    "RollupZone",
    "RouteApproval",
    "SemanticHit",
]
