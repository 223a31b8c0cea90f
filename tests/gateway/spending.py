"""Callers, limits and calls for tests of what is admitted and spent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.db.models import Sum

from apps.gateway.admission.rules import limits_changed
from apps.gateway.calling import catalogue
from apps.gateway.models import BudgetCounter, LedgerEntry, Price, Reservation
from apps.gateway.types import Call, Caller, Outcome, Source, Usage
from apps.tenants.models import Limit, Measure, Subject, Tenant

MONEY, TOKENS = Measure.MICROS_PER_MONTH, Measure.TOKENS_PER_DAY


def caller_of(tenant: Tenant, **more: Any) -> Caller:
    return replace(Caller(tenant.id, tenant.time_zone, Source.API), **more)


def limit(
    tenant: Tenant,
    measure: Measure,
    amount: int,
    subject: Subject = Subject.TENANT,
    subject_id: str = "",
) -> None:
    """Operations set a limit, and it holds at once."""
    Limit.objects.update_or_create(
        tenant=tenant,
        measure=measure,
        subject=subject,
        subject_id=subject_id,
        given_by=Limit.GivenBy.OPS,
        defaults={"amount": amount},
    )
    limits_changed(tenant.id)


def a_micro_a_token() -> None:
    """Every token at the upstream `double` costs one micro."""
    Price.objects.create(
        upstream="double",
        valid_from=datetime(2020, 1, 1, tzinfo=UTC),
        input_micros_per_mtok=1_000_000,
        output_micros_per_mtok=1_000_000,
    )
    catalogue.forget()


def call_of(tokens: int, outcome: Outcome = Outcome.COMPLETE, **more: Any) -> Call:
    """A call that used `tokens`, half of them read."""
    usage = Usage(tokens // 2, 0, tokens - tokens // 2)
    call = Call("generate", "model", upstream="double", usage=usage, outcome=outcome)
    return replace(call, **more)


def counted(tenant: Tenant, measure: str = "micros", subject: str = "tenant") -> tuple[int, int]:
    """Used and reserved, over all windows."""
    sums = BudgetCounter.objects.filter(
        tenant_id=tenant.id, subject=subject, measure=measure
    ).aggregate(used=Sum("used", default=0), reserved=Sum("reserved", default=0))
    return sums["used"], sums["reserved"]


def booked(tenant: Tenant, **more: Any) -> tuple[int, int]:
    """Micros and tokens that the ledger has."""
    sums = LedgerEntry.objects.filter(tenant_id=tenant.id, **more).aggregate(
        micros=Sum("cost_micros", default=0),
        read=Sum("prompt_tokens", default=0),
        written=Sum("output_tokens", default=0),
    )
    return sums["micros"], sums["read"] + sums["written"]


def let_expire() -> None:
    """As if the processes of all reservations had been silent for longer than the lease."""
    Reservation.objects.update(expires_at=datetime(2020, 1, 1, tzinfo=UTC))
