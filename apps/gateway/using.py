"""How much of each limit is used: budgets from their counters, stocks from whoever keeps them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.gateway.admission.selectors import COUNTED, usages_of
from apps.tenants.limits import STOCK_MEASURES, LimitRule, limits_for, stock_of
from apps.tenants.models import ApiKey, Limit, Measure, Membership, Subject, Tenant

# Limits on these say how much is left; the others are on what goes on in a minute or at once.
MEASURED = frozenset(COUNTED) | STOCK_MEASURES


@dataclass(frozen=True)
class RuleUse:
    """A limit as it binds somebody, and how much of it is gone."""

    rule: LimitRule
    used: int
    reserved: int = 0  # by calls in flight
    window_start: datetime | None = None  # None: a stock
    resets_at: datetime | None = None

    @property
    def percent(self) -> int:
        """Of the limit, rounded down: 100 is all of it. Of a limit of nothing, all is gone."""
        return self.used * 100 // self.rule.amount if self.rule.amount else 100

    @property
    def is_near(self) -> bool:
        """Whether people are warned of it."""
        return self.used * 100 >= self.rule.amount * self.rule.soft_percent

    @property
    def is_met(self) -> bool:
        return self.used >= self.rule.amount


def uses_of(tenant: Tenant, rules: Iterable[LimitRule]) -> list[RuleUse]:
    """The use of those of the rules that are on a budget or a stock, in their order."""
    measured = [rule for rule in rules if rule.measure in MEASURED]
    budgets = [rule for rule in measured if rule.measure in COUNTED]
    counted = dict(zip(budgets, usages_of(tenant, budgets), strict=True)) if budgets else {}
    stock = stock_of(tenant.id) if len(budgets) < len(measured) else {}
    uses = []
    for rule in measured:
        found = counted.get(rule)
        if found is None:
            uses.append(RuleUse(rule, stock.get((rule.subject, rule.subject_id, rule.measure), 0)))
        else:
            uses.append(
                RuleUse(rule, found.used, found.reserved, found.window_start, found.resets_at)
            )
    return uses


def own_use(tenant: Tenant, user_id: int) -> list[RuleUse]:
    """A member's own limits and what they used of them; nothing of anybody else's."""
    rules = limits_for(tenant.id, user_id=user_id)
    return uses_of(tenant, (rule for rule in rules if rule.subject == Subject.MEMBER))


def expanded(tenant_id: uuid.UUID, limits: Sequence[Limit]) -> list[LimitRule]:
    """The limits as they bind: one of each member or key, as one of every member and key there is.

    Those who have one of their own are left out of the general one.
    """
    own = {(limit.subject, limit.subject_id, limit.measure, limit.given_by) for limit in limits}
    rules = []
    for limit in limits:
        for subject_id in _bound_by(tenant_id, limit):
            place = (limit.subject, subject_id, limit.measure, limit.given_by)
            if subject_id == limit.subject_id or place not in own:
                rules.append(_rule(limit, subject_id))
    return rules


def _bound_by(tenant_id: uuid.UUID, limit: Limit) -> list[str]:
    if limit.subject_id or limit.subject == Subject.TENANT:
        return [limit.subject_id]
    if limit.subject == Subject.MEMBER:
        members = Membership.objects.filter(tenant_id=tenant_id).order_by("user_id")
        return [str(user_id) for user_id in members.values_list("user_id", flat=True)]
    keys = ApiKey.objects.filter(tenant_id=tenant_id, revoked_at__isnull=True).order_by("id")
    return [str(key_id) for key_id in keys.values_list("id", flat=True)]


def _rule(limit: Limit, subject_id: str) -> LimitRule:
    return LimitRule(
        id=limit.id,
        subject=Subject(limit.subject),
        subject_id=subject_id,
        measure=Measure(limit.measure),
        amount=limit.amount,
        soft_percent=limit.soft_percent,
    )
