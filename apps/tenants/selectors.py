"""Reading tenants, the people in them, and their credentials."""

from __future__ import annotations

import uuid

from allauth.account.models import EmailAddress
from django.db.models import QuerySet
from django.utils import timezone

from apps.tenants.models import ApiKey, Invitation, Membership, Tenant, User
from apps.tenants.tokens import hash_token


def memberships_of(user: User) -> QuerySet[Membership]:
    """A person's memberships with their tenants, by name."""
    return Membership.objects.filter(user=user).select_related("tenant").order_by("tenant__name")


def readable_by_ops(user: User) -> QuerySet[Tenant]:
    """Tenants that let operations read; none for anybody else."""
    if not user.is_ops:
        return Tenant.objects.none()
    return Tenant.objects.filter(ops_may_read_text=True).order_by("name")


def members_of(tenant_id: uuid.UUID) -> QuerySet[Membership]:
    """A tenant's members with their users, by address."""
    return (
        Membership.objects.filter(tenant_id=tenant_id)
        .select_related("user")
        .order_by("user__email")
    )


def open_invitations_of(tenant_id: uuid.UUID) -> QuerySet[Invitation]:
    """Invitations nobody has accepted, expired ones included, newest first."""
    return Invitation.objects.filter(tenant_id=tenant_id, accepted_at__isnull=True).order_by(
        "-created_at"
    )


def keys_of(tenant_id: uuid.UUID) -> QuerySet[ApiKey]:
    """A tenant's API keys, newest first."""
    return (
        ApiKey.objects.filter(tenant_id=tenant_id)
        .select_related("created_by")
        .order_by("-created_at")
    )


def find_invitation(token: str) -> Invitation | None:
    """The invitation a link's token belongs to, if it still can be accepted."""
    return _acceptable().filter(token_hash=hash_token(token)).first()


def find_invitation_by_id(invitation_id: uuid.UUID) -> Invitation | None:
    """The same by id, as remembered in a session."""
    return _acceptable().filter(id=invitation_id).first()


def newest_invitation_to(email: str) -> Invitation | None:
    """The newest acceptable invitation to an address that is proven to be the person's."""
    return _acceptable().filter(email__iexact=email).order_by("-created_at").first()


def has_account(email: str) -> bool:
    """Whether someone signs in with this address."""
    return (
        User.objects.filter(email__iexact=email).exists()
        or EmailAddress.objects.filter(email__iexact=email, verified=True).exists()
    )


def _acceptable() -> QuerySet[Invitation]:
    return Invitation.objects.select_related("tenant", "invited_by").filter(
        accepted_at__isnull=True, expires_at__gt=timezone.now()
    )
