"""Alerts: a metric fell by more than its interval, or live searches miss what an exact one finds.

None is raised again while the same is open: one alert is read, forty are not.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from django.db import connection
from django.db.models import QuerySet

from apps.evals.comparing import Comparison, compare
from apps.evals.models import Alert, EvalRun

# What a set is watched by, at the last stage.
WATCHED = ("ndcg@10", "recall@10", "recall@50")
QUESTIONS_MIN = 10  # fewer say nothing: one of nine moves a mean by .11
# Compared over time: those of the clock, and by hand.
_TRIGGERS = (EvalRun.Trigger.NIGHTLY, EvalRun.Trigger.INGESTION, EvalRun.Trigger.MANUAL)


def earlier_run(run: EvalRun) -> EvalRun | None:
    """The newest run before it that searched as the tenant is searched and was not degraded."""
    earlier = EvalRun.objects.filter(
        tenant_id=run.tenant_id,
        labelled_set_id=run.labelled_set_id,
        state=EvalRun.State.DONE,
        trigger__in=_TRIGGERS,
        created_at__lt=run.created_at,
        configuration__default=True,
        figures__degraded={},
    )
    return earlier.order_by("-created_at").first()


def check_run(run: EvalRun) -> list[Alert]:
    """Compare a run that is done with the one before it, and raise what fell beyond chance.

    Runs of other configurations, by other triggers or with degraded questions raise nothing.
    """
    comparable = run.trigger in _TRIGGERS and run.configuration.get("default")
    if not comparable or run.figures.get("degraded"):
        return []
    before = earlier_run(run)
    if before is None:
        return []
    comparison = compare(before, run)
    if comparison.questions < QUESTIONS_MIN:
        return []
    found = [_raise_fall(run, before, comparison, metric) for metric in WATCHED]
    return [alert for alert in found if alert is not None]


def _raise_fall(run: EvalRun, before: EvalRun, comparison: Comparison, metric: str) -> Alert | None:
    difference = comparison.difference(metric)
    if difference is None or not difference.fell:
        return None
    sets_own = Alert.objects.filter(run__labelled_set_id=run.labelled_set_id)
    figures = {
        "before": difference.before,
        "after": difference.after,
        "low": difference.low,
        "high": difference.high,
        "questions": comparison.questions,
        "before_run": str(before.id),
    }
    return raise_once(
        run.tenant_id, Alert.Kind.METRIC_FELL, metric, figures, run=run, among=sets_own
    )


def raise_once(
    tenant_id: uuid.UUID,
    kind: str,
    metric: str,
    figures: Mapping[str, object],
    *,
    run: EvalRun | None = None,
    among: QuerySet[Alert] | None = None,
) -> Alert | None:
    """Raise an alert unless one of its kind and metric is open (`among` those). Locks the tenant's
    alerts until the transaction ends: two clocks raise one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('evals_alert' || %s, 0))",
            [str(tenant_id)],
        )
    alerts = Alert.objects.all() if among is None else among
    if alerts.filter(tenant_id=tenant_id, kind=kind, metric=metric, seen_at=None).exists():
        return None
    return Alert.objects.create(
        tenant_id=tenant_id, kind=kind, metric=metric, figures=dict(figures), run=run
    )
