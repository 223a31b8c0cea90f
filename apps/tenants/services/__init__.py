"""Everything that writes tenants, the people in them, and their credentials."""

from __future__ import annotations

from apps.tenants.services.invitations import accept_invitation, invite, is_for, revoke_invitation
from apps.tenants.services.keys import authenticate_key, create_key, revoke_key
from apps.tenants.services.limits import remove_limit, set_limit
from apps.tenants.services.people import add_member, change_role, remove_member
from apps.tenants.services.tenants import create_tenant, update_tenant

__all__ = [
    "accept_invitation",
    "add_member",
    "authenticate_key",
    "change_role",
    "create_key",
    "create_tenant",
    "invite",
    "is_for",
    "remove_limit",
    "remove_member",
    "revoke_invitation",
    "revoke_key",
    "set_limit",
    "update_tenant",
]
