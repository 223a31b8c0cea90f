"""What an alert says, in words for people and in JSON for programs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse

from apps.gateway.admission.selectors import COUNTED, window_of
from apps.gateway.admission.windows import zone
from apps.gateway.models import BudgetAlert
from apps.tenants.amounts import format_amount
from apps.tenants.models import ApiKey, Measure, Subject, Tenant, User

_WHAT = {
    Measure.MICROS_PER_MONTH: "money for this month",
    Measure.TOKENS_PER_DAY: "tokens for today",
    Measure.DOCUMENTS: "documents",
    Measure.STORAGE_BYTES: "storage",
}


@dataclass(frozen=True)
class Words:
    subject: str  # of the mail: one line
    text: str
    payload: dict[str, Any]  # of the webhook


def words_of(alert: BudgetAlert, tenant: Tenant) -> Words:
    """What to say of an alert that was noted."""
    measure, is_hard = Measure(alert.measure), alert.threshold == "hard"
    resets_at = _resets_at(alert, tenant)
    name = " ".join(tenant.name.split())
    percent = alert.used * 100 // alert.limit if alert.limit else 100
    context = {
        "tenant": name,
        "whose": _whose(alert, tenant),
        "what": _WHAT[measure],
        "is_hard": is_hard,
        "used": format_amount(measure, alert.used),
        "limit": format_amount(measure, alert.limit),
        "percent": percent,
        "is_short": is_hard and alert.used < alert.limit,
        "is_stock": resets_at is None,
        "resets": _moment(resets_at, tenant),
        "link": limits_link(tenant),
    }
    share = "all" if alert.used >= alert.limit else f"{percent} %"
    return Words(
        subject=f"{name}: {share} of a limit is used ({_WHAT[measure]})",
        text=render_to_string("gateway/email/alert.txt", context),
        payload=_payload(alert, tenant, resets_at, percent),
    )


def test_words(tenant: Tenant) -> Words:
    """What a test says."""
    name = " ".join(tenant.name.split())
    link = limits_link(tenant)
    return Words(
        subject=f"{name}: a test of the alerts about limits",
        text=render_to_string("gateway/email/test.txt", {"tenant": name, "link": link}),
        payload={"type": "limit.test", "tenant": tenant.slug, "url": link},
    )


def limits_link(tenant: Tenant) -> str:
    return f"{settings.SITE_ORIGINS[0]}{reverse('ops:limits', args=[tenant.slug])}"


def _whose(alert: BudgetAlert, tenant: Tenant) -> str:
    if alert.subject == Subject.MEMBER:
        user = User.objects.filter(id=alert.subject_id, memberships__tenant=tenant).first()
        return user.email if user else "someone who has left"
    if alert.subject == Subject.KEY:
        key = ApiKey.objects.filter(tenant=tenant, id=alert.subject_id).first()
        return f"the API key {' '.join(key.name.split())} ({key.prefix}…)" if key else "an API key"
    return "the organisation"


def _resets_at(alert: BudgetAlert, tenant: Tenant) -> datetime | None:
    measure = Measure(alert.measure)
    if measure not in COUNTED or alert.window_start is None:
        return None
    return window_of(measure, alert.window_start, tenant.time_zone)[1]


def _moment(at: datetime | None, tenant: Tenant) -> str:
    if at is None:
        return ""
    return f"{at.astimezone(zone(tenant.time_zone)):%Y-%m-%d %H:%M} ({tenant.time_zone})"


def _payload(
    alert: BudgetAlert, tenant: Tenant, resets_at: datetime | None, percent: int
) -> dict[str, Any]:
    budget = Measure(alert.measure) in COUNTED
    return {
        "id": alert.id,
        "type": f"limit.{alert.threshold}",
        "tenant": tenant.slug,
        "at": alert.at,
        "limit": {
            "measure": alert.measure,
            "subject": alert.subject,
            "subject_id": alert.subject_id,
            "amount": alert.limit,
        },
        "used": alert.used,
        "percent": percent,
        "currency": settings.CURRENCY if alert.measure == Measure.MICROS_PER_MONTH else None,
        "window_start": alert.window_start if budget else None,
        "resets_at": resets_at,
        "url": limits_link(tenant),
    }
