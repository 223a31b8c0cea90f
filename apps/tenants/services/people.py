"""Members and their roles."""

from __future__ import annotations

from django.db import transaction

from apps.telemetry.services import record_audit
from apps.tenants.errors import LastManager
from apps.tenants.models import Membership, Role, Tenant, User


@transaction.atomic
def add_member(*, tenant: Tenant, user: User, role: str, actor: User | None = None) -> Membership:
    """Make `user` a member; someone who is one already keeps the role they have."""
    membership, created = Membership.objects.get_or_create(
        tenant=tenant, user=user, defaults={"role": Role(role)}
    )
    if created:
        _audit("member.added", membership, actor)
    return membership


@transaction.atomic
def change_role(*, membership: Membership, role: str, actor: User) -> Membership:
    """Give a member another role. Raises LastManager when no manager would be left."""
    fresh = _locked(membership)
    if fresh.role == role:
        return fresh
    _keep_a_manager(fresh)
    fresh.role = Role(role)
    fresh.save(update_fields=["role"])
    _audit(f"member.role_{role}", fresh, actor)
    return fresh


@transaction.atomic
def remove_member(*, membership: Membership, actor: User) -> None:
    """End a membership. Raises LastManager when no manager would be left."""
    fresh = _locked(membership)
    _keep_a_manager(fresh)
    _audit("member.removed", fresh, actor)
    fresh.delete()


def _locked(membership: Membership) -> Membership:
    """The membership as it is now, with the tenant locked: two managers may demote each other."""
    Tenant.objects.select_for_update(no_key=True).get(id=membership.tenant_id)
    return Membership.objects.select_for_update().get(
        tenant_id=membership.tenant_id, id=membership.id
    )


def _keep_a_manager(leaving: Membership) -> None:
    if leaving.role != Role.TENANT_MANAGER:
        return
    others = Membership.objects.filter(
        tenant_id=leaving.tenant_id, role=Role.TENANT_MANAGER, user__is_active=True
    ).exclude(id=leaving.id)
    if not others.exists():
        raise LastManager


def _audit(action: str, membership: Membership, actor: User | None) -> None:
    record_audit(
        action=action,
        tenant_id=membership.tenant_id,
        actor_id=actor.id if actor else None,
        subject_id=f"user {membership.user_id}",
    )
