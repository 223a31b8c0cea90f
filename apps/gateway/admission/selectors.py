"""What is used and reserved in the windows that are running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from apps.gateway.admission import windows
from apps.gateway.models import BudgetCounter
from apps.tenants.limits import LimitRule
from apps.tenants.models import Measure, Tenant

# How the counters call what a budget limits.
COUNTED = {Measure.MICROS_PER_MONTH: "micros", Measure.TOKENS_PER_DAY: "tokens"}


@dataclass(frozen=True)
class Use:
    """How much of a budget is gone: micros or tokens, in the window that is running."""

    used: int
    reserved: int  # by calls in flight
    window_start: datetime
    resets_at: datetime


def usage_of(tenant: Tenant, rule: LimitRule) -> Use:
    """The use of one budget. `rule.measure` is money a month or tokens a day; else ValueError."""
    return usages_of(tenant, [rule])[0]


def usages_of(tenant: Tenant, rules: Sequence[LimitRule]) -> list[Use]:
    """The use of each of the budgets, in their order, in one query."""
    now = timezone.now()
    spans = {rule.measure: window_of(rule.measure, now, tenant.time_zone) for rule in rules}
    counters = {
        (counter.subject, counter.subject_id, counter.measure, counter.window_start): counter
        for counter in BudgetCounter.objects.filter(
            tenant_id=tenant.id,
            subject_id__in={rule.subject_id for rule in rules},
            window_start__in={start for start, _ in spans.values()},
        )
    }
    uses = []
    for rule in rules:
        start, end = spans[rule.measure]
        found = counters.get((rule.subject, rule.subject_id, COUNTED[rule.measure], start))
        uses.append(Use(found.used, found.reserved, start, end) if found else Use(0, 0, start, end))
    return uses


def window_of(measure: Measure, at: datetime, time_zone: str) -> tuple[datetime, datetime]:
    """Begin and end of the window of a budget that `at` is in, end excluded."""
    if measure == Measure.MICROS_PER_MONTH:
        return windows.month_start(at, time_zone), windows.next_month(at, time_zone)
    if measure == Measure.TOKENS_PER_DAY:
        return windows.day_start(at, time_zone), windows.next_day(at, time_zone)
    raise ValueError(f"{measure} is no budget: it has no window")
