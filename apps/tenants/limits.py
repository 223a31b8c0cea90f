"""Which limits bind a caller: of its tenant, of the person, of the key. The tightest wins."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from apps.tenants.models import Limit, Measure, Subject

# Whom a use is of, and what is used; "" is the tenant itself.
UseKey = tuple[Subject, str, Measure]
# Filled by rooms above this one when they are ready: who keeps copies of a tenant's limits is told
# after the commit that changed them; who knows what is kept in stock (documents, bytes) is asked.
on_change: list[Callable[[uuid.UUID], None]] = []
stocks: list[Callable[[uuid.UUID], Mapping[UseKey, int]]] = []
# A limit on these is on what there is at present, and never begins anew.
STOCK_MEASURES = frozenset({Measure.DOCUMENTS, Measure.STORAGE_BYTES})


def limits_changed(tenant_id: uuid.UUID) -> None:
    """Tell whoever keeps copies of the tenant's limits."""
    for tell in on_change:
        tell(tenant_id)


def stock_of(tenant_id: uuid.UUID) -> dict[UseKey, int]:
    """What the tenant, its members and its keys have of everything that is kept in stock."""
    found: dict[UseKey, int] = {}
    for ask in stocks:
        found.update(ask(tenant_id))
    return found


def limits_of(tenant_id: uuid.UUID) -> QuerySet[Limit]:
    """Every limit of a tenant, whoever gave it: of the tenant, each member or key, one of them."""
    return Limit.objects.filter(tenant_id=tenant_id).order_by(
        "measure", "subject", "subject_id", "given_by"
    )


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
    # The general one comes first, so that the particular one takes its place; then the tightest.
    limits = Limit.objects.filter(binding, tenant_id=tenant_id)
    for limit in limits.order_by("subject_id", "amount", "id"):
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
