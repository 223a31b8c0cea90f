"""Alerts, taken note of by people."""

from __future__ import annotations

import uuid

from django.utils import timezone

from apps.evals.models import Alert
from apps.tenants.models import Tenant, User


def see_alert(*, tenant: Tenant, user: User, alert_id: uuid.UUID) -> None:
    """Note that somebody has seen it; who saw it first stays noted."""
    Alert.objects.filter(tenant=tenant, id=alert_id, seen_at=None).update(
        seen_at=timezone.now(), seen_by=user
    )


def unsee_alert(*, tenant: Tenant, alert_id: uuid.UUID) -> None:
    """Open it again."""
    Alert.objects.filter(tenant=tenant, id=alert_id).update(seen_at=None, seen_by=None)
