"""Tenants themselves."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User

# Filled by rooms above this one when they are ready: whose windows begin elsewhere now. Called in
# the transaction that moves the tenant.
on_move: list[Callable[[Tenant], None]] = []


@transaction.atomic
def create_tenant(*, slug: str, name: str, time_zone: str = "UTC") -> Tenant:
    """A tenant with nobody in it yet."""
    tenant = Tenant.objects.create(slug=slug, name=name, time_zone=time_zone)
    record_audit(action="tenant.created", tenant_id=tenant.id, actor_id=None, subject_id=tenant.id)
    return tenant


@transaction.atomic
def update_tenant(
    *, tenant: Tenant, name: str, time_zone: str, ops_may_read_text: bool, actor: User
) -> Tenant:
    """Change a tenant's settings. Letting operations read, or not, is audited by itself."""
    before = Tenant.objects.select_for_update(no_key=True).get(id=tenant.id)
    if before.ops_may_read_text != ops_may_read_text:
        action = "granted" if ops_may_read_text else "withdrawn"
        record_audit(
            action=f"tenant.ops_reading_{action}",
            tenant_id=tenant.id,
            actor_id=actor.id,
            subject_id=tenant.id,
        )
    if (before.name, before.time_zone) != (name, time_zone):
        record_audit(
            action="tenant.updated", tenant_id=tenant.id, actor_id=actor.id, subject_id=tenant.id
        )
    moved = before.time_zone != time_zone
    before.name, before.time_zone, before.ops_may_read_text = name, time_zone, ops_may_read_text
    before.save(update_fields=["name", "time_zone", "ops_may_read_text"])
    if moved:
        for follow in on_move:
            follow(before)
    return before
