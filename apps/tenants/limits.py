"""Which limits bind a caller: of its tenant, of the person, of the key. The tightest wins."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db.models import Q

from apps.tenants.models import Limit, Measure, Subject


@dataclass(frozen=True)
class LimitRule:
    """One limit as it binds one caller; `subject_id` is the caller's own also where it is set for
    each member or key."""

    id: uuid.UUID
    subject: Subject
    subject_id: str  # "" for the tenant
    measure: Measure
    amount: int
    soft_percent: int


def limits_for(
    tenant_id: uuid.UUID, *, user_id: int | None = None, key_id: uuid.UUID | None = None
) -> tuple[LimitRule, ...]:
    """The limits that bind a caller, whoever set them.

    A limit of one member or key stands in place of the manager's for each of them.
    """
    callers = {Subject.TENANT: "", Subject.MEMBER: str(user_id), Subject.KEY: str(key_id)}
    binding = Q(subject=Subject.TENANT)
    if user_id is not None:
        binding |= Q(subject=Subject.MEMBER, subject_id__in=["", str(user_id)])
    if key_id is not None:
        binding |= Q(subject=Subject.KEY, subject_id__in=["", str(key_id)])
    found: dict[tuple[str, str, str], Limit] = {}
    # The general one comes first, so that the particular one takes its place.
    for limit in Limit.objects.filter(binding, tenant_id=tenant_id).order_by("subject_id"):
        found[limit.subject, limit.measure, limit.given_by] = limit
    return tuple(
        LimitRule(
            id=limit.id,
            subject=Subject(limit.subject),
            subject_id=callers[Subject(limit.subject)],
            measure=Measure(limit.measure),
            amount=limit.amount,
            soft_percent=limit.soft_percent,
        )
        for limit in found.values()
    )
