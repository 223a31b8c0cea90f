"""Setting and removing limits: operations for tenants, managers within that.

One change of a tenant's limits at a time: the tenant's row is held, so that a manager's limit is
compared with what operations have given at that moment.
"""

from __future__ import annotations

import uuid
from functools import partial

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from apps.telemetry.services import record_audit
from apps.tenants.amounts import check_amount, format_amount
from apps.tenants.errors import LimitRefused
from apps.tenants.limits import limits_changed
from apps.tenants.models import ApiKey, Limit, Measure, Membership, Role, Subject, Tenant, User

GivenBy = Limit.GivenBy


@transaction.atomic
def set_limit(
    *,
    tenant: Tenant,
    actor: User,
    given_by: str,
    subject: str,
    measure: str,
    amount: int,
    subject_id: str = "",
    soft_percent: int = 80,
) -> Limit:
    """Set a limit in the place of the one before; raises LimitRefused.

    `amount` is in the measure's own unit (micros, bytes, a count); 0 allows nothing. `subject_id`
    is a member's user id or a key's id; "" for the tenant, or for each member or key. A changed
    limit is a new one with an id of its own: whoever was warned of the old is warned of it too.
    """
    limit = Limit(
        tenant=tenant,
        subject=Subject(subject),
        subject_id=subject_id,
        measure=Measure(measure),
        amount=check_amount(Measure(measure), amount),
        soft_percent=soft_percent,
        given_by=GivenBy(given_by),
    )
    if not 1 <= soft_percent <= 100:
        raise LimitRefused("People are warned at a share from 1 to 100 percent.")
    _hold(tenant)
    _refuse_unentitled(limit, actor)
    _refuse_stranger(limit)
    _refuse_looser(limit)
    before = _same_place(limit).first()
    if before is not None and (before.amount, before.soft_percent) == (amount, soft_percent):
        return before
    _same_place(limit).delete()
    limit.updated_at = timezone.now()
    limit.save(force_insert=True)
    _note("limit.set", limit, actor, str(amount))
    return limit


@transaction.atomic
def remove_limit(*, tenant: Tenant, limit_id: uuid.UUID, actor: User) -> None:
    """Take a limit away; one that is gone already stays so. Raises LimitRefused."""
    _hold(tenant)
    limit = Limit.objects.filter(tenant=tenant, id=limit_id).first()
    if limit is None:
        return
    _refuse_unentitled(limit, actor)
    Limit.objects.filter(tenant=tenant, id=limit_id).delete()
    _note("limit.removed", limit, actor)


def _hold(tenant: Tenant) -> None:
    Tenant.objects.select_for_update(no_key=True).get(id=tenant.id)


def _same_place(limit: Limit) -> QuerySet[Limit]:
    return Limit.objects.filter(
        tenant_id=limit.tenant_id,
        subject=limit.subject,
        subject_id=limit.subject_id,
        measure=limit.measure,
        given_by=limit.given_by,
    )


def _refuse_unentitled(limit: Limit, actor: User) -> None:
    if limit.given_by == GivenBy.OPS:
        if not actor.is_ops:
            raise LimitRefused("Only operations change what an organisation was given.")
        if limit.subject != Subject.TENANT:
            raise LimitRefused("Operations limit the organisation as a whole, not its people.")
        return
    manages = Membership.objects.filter(
        tenant_id=limit.tenant_id, user=actor, role=Role.TENANT_MANAGER
    )
    if not manages.exists():
        raise LimitRefused("Only the organisation's own managers set its limits.")


def _refuse_stranger(limit: Limit) -> None:
    """A limit binds a member or a key of this tenant, and one that is there."""
    if limit.subject == Subject.MEMBER and limit.subject_id:
        number = limit.subject_id
        known = number.isascii() and number.isdigit() and len(number) < 19
        members = Membership.objects.filter(tenant_id=limit.tenant_id)
        if not known or not members.filter(user_id=int(number)).exists():
            raise LimitRefused("This person is not a member here. Choose one of the list.")
    elif limit.subject == Subject.KEY and limit.subject_id:
        key_id = _uuid(limit.subject_id)
        working = ApiKey.objects.filter(tenant_id=limit.tenant_id, revoked_at__isnull=True)
        if key_id is None or not working.filter(id=key_id).exists():
            raise LimitRefused("There is no such key here. Choose one of the list.")
    elif limit.subject == Subject.TENANT and limit.subject_id:
        raise LimitRefused("A limit of the organisation names nobody.")


def _refuse_looser(limit: Limit) -> None:
    if limit.given_by != GivenBy.MANAGER:
        return
    given = Limit.objects.filter(
        tenant_id=limit.tenant_id,
        subject=Subject.TENANT,
        measure=limit.measure,
        given_by=GivenBy.OPS,
    ).first()
    if given is not None and limit.amount > given.amount:
        raise LimitRefused(
            f"Operations have given your organisation {format_amount(given.measure, given.amount)}"
            f" ({Measure(given.measure).label.lower()}); set that or less."
        )


def _uuid(text: str) -> uuid.UUID | None:
    """Only as it is written here: the database keeps, and compares, the text."""
    try:
        found = uuid.UUID(text)
    except ValueError:
        return None
    return found if str(found) == text else None


def _note(action: str, limit: Limit, actor: User, amount: str = "") -> None:
    """Into the audit trail: what is limited, of whom, and the figure; then tell who keeps it."""
    record_audit(
        action=f"{action}.{limit.given_by}.{limit.measure}",
        tenant_id=limit.tenant_id,
        actor_id=actor.id,
        subject_id=" ".join(filter(None, (limit.subject, limit.subject_id, amount))),
    )
    transaction.on_commit(partial(limits_changed, limit.tenant_id))
