"""A budget that has turned a request away is used up, though its last bit never will be.

What is reserved is the worst case, so a budget ends below its amount: the hard threshold of one is
met where it refuses, and not by adding up.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from datetime import datetime

from django.db import DatabaseError
from django.utils import timezone

from apps.gateway.models import BudgetAlert, BudgetCounter
from apps.tenants.limits import LimitRule
from apps.tenants.models import Measure, Subject

logger = logging.getLogger(__name__)

_COUNTED = {"micros": Measure.MICROS_PER_MONTH, "tokens": Measure.TOKENS_PER_DAY}
_MOST_REMEMBERED = 4096
# What this process has looked at: of many refusals in a window, the first is enough.
_seen: set[tuple[uuid.UUID, str, datetime]] = set()


def note_refusal(
    tenant_id: uuid.UUID,
    counter: tuple[str, Subject],
    needed: int,
    window_start: datetime,
    rules: Iterable[LimitRule],
) -> None:
    """Note that a budget has refused `needed`; never raises, for the refusal is what matters.

    `counter` is its measure ("micros" or "tokens") and whose it is. A request that would not fit
    into half of the budget says nothing about what is left of it.
    """
    measure, subject = counter
    bound = [r for r in rules if (r.measure, r.subject) == (_COUNTED[measure], subject)]
    rule = min(bound, key=lambda each: each.amount, default=None)
    if rule is None or 2 * needed > rule.amount:
        return
    if (rule.id, rule.subject_id, window_start) not in _seen:
        try:
            _note(tenant_id, measure, window_start, rule)
        except DatabaseError as exc:
            logger.warning("refusal by limit %s not noted: %s", rule.id, type(exc).__name__)


def _note(tenant_id: uuid.UUID, measure: str, window_start: datetime, rule: LimitRule) -> None:
    counter = BudgetCounter.objects.filter(
        tenant_id=tenant_id,
        subject=rule.subject,
        subject_id=rule.subject_id,
        measure=measure,
        window_start=window_start,
    ).first()
    # What is only reserved may come back.
    if counter is None or counter.used * 100 < rule.amount * rule.soft_percent:
        return
    alert = BudgetAlert(
        tenant_id=tenant_id,
        limit_id=rule.id,
        subject=rule.subject,
        subject_id=rule.subject_id,
        measure=rule.measure,
        window_start=window_start,
        threshold="hard",
        used=counter.used,
        limit=rule.amount,
        due_at=timezone.now(),
    )
    BudgetAlert.objects.bulk_create([alert], ignore_conflicts=True)
    if len(_seen) >= _MOST_REMEMBERED:
        _seen.clear()
    _seen.add((rule.id, rule.subject_id, window_start))
