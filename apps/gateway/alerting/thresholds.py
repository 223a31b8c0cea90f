"""Which thresholds are met: a row each, once in its window."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from django.db.models import F
from django.utils import timezone

from apps.gateway.models import BudgetAlert
from apps.gateway.using import MEASURED, RuleUse, expanded, uses_of
from apps.tenants.models import Limit, Tenant

SOFT, HARD = "soft", "hard"
# A stock must fall by so much of its limit below a threshold, for rising to it to be news again.
_FALLEN_SHARE = 0.05


def note_thresholds() -> int:
    """Look at every limit of every tenant; how many thresholds were met that were not before."""
    noted = 0
    limits = (
        Limit.objects.filter(measure__in=MEASURED).select_related("tenant").order_by("tenant_id")
    )
    for tenant, some in groupby(limits.iterator(), key=lambda limit: limit.tenant):
        uses = uses_of(tenant, expanded(tenant.id, list(some)))
        _close_fallen(tenant, uses)
        noted += _note(tenant, [alert for use in uses for alert in _met(tenant, use)])
    return noted


def _met(tenant: Tenant, use: RuleUse) -> Iterator[BudgetAlert]:
    """The higher of the thresholds that is met. Of a limit of nothing, nobody is told."""
    rule = use.rule
    if not rule.amount or not use.is_near:
        return
    yield BudgetAlert(
        tenant_id=tenant.id,
        limit_id=rule.id,
        subject=rule.subject,
        subject_id=rule.subject_id,
        measure=rule.measure,
        window_start=use.window_start,
        threshold=HARD if use.is_met else SOFT,
        used=use.used,
        limit=rule.amount,
        due_at=timezone.now(),
    )


def _note(tenant: Tenant, alerts: list[BudgetAlert]) -> int:
    """Those of the alerts that are new. Two clocks at once note each once.

    Where the hard threshold was noted, by a refusal maybe, the soft one is no news.
    """
    before = BudgetAlert.objects.filter(
        tenant_id=tenant.id, limit_id__in={alert.limit_id for alert in alerts}
    )
    known = set(before.values_list("limit_id", "subject_id", "window_start", "threshold"))
    new = [
        alert
        for alert in alerts
        if known.isdisjoint(
            (alert.limit_id, alert.subject_id, alert.window_start, threshold)
            for threshold in {alert.threshold, HARD}
        )
    ]
    BudgetAlert.objects.bulk_create(new, ignore_conflicts=True)
    return len(new)


def _close_fallen(tenant: Tenant, uses: list[RuleUse]) -> None:
    """Alerts of stocks that have fallen again, or whose limit is gone: they may come again."""
    by_rule = {(use.rule.id, use.rule.subject_id): use for use in uses}
    fallen = []
    for alert in BudgetAlert.objects.filter(tenant_id=tenant.id, window_start__isnull=True):
        use = by_rule.get((alert.limit_id, alert.subject_id))
        if use is None or _has_fallen(use, alert.threshold):
            fallen.append(alert.id)
    BudgetAlert.objects.filter(tenant_id=tenant.id, id__in=fallen).update(window_start=F("at"))


def _has_fallen(use: RuleUse, threshold: str) -> bool:
    amount = use.rule.amount
    level = amount if threshold == HARD else amount * use.rule.soft_percent / 100
    return use.used <= level - amount * _FALLEN_SHARE
