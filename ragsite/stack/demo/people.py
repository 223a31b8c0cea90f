"""The demo tenant and one person for each role."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from allauth.account.models import EmailAddress
from django.conf import settings
from django.db import transaction

from apps.tenants import services
from apps.tenants.models import Role, Tenant, User
from ragsite.stack.state import StateDir

SLUG = "demo"
_DOMAIN = "demo.example"
# The part of the address before the @, and the role in the tenant ("": site-wide operations).
_CAST = {
    "member": Role.MEMBER,
    "corpus-admin": Role.CORPUS_ADMIN,
    "manager": Role.TENANT_MANAGER,
    "ops": "",
}


@dataclass(frozen=True)
class Demo:
    """The demo tenant, its people by role, and the password they share."""

    tenant: Tenant
    users: dict[str, User]
    password: str

    @property
    def corpus_admin(self) -> User:
        """Uploads the documentation, and asks: unlike a member, they see the hops."""
        return self.users["corpus-admin"]


def ensure_demo() -> Demo:
    """The demo tenant and its people; what is missing of them is made."""
    password = _password()
    with transaction.atomic():
        tenant = Tenant.objects.filter(slug=SLUG).first() or services.create_tenant(
            slug=SLUG, name="Demo"
        )
        users = {name: _ensure_user(name, password) for name in _CAST}
        for name, role in _CAST.items():
            if role:
                services.add_member(tenant=tenant, user=users[name], role=role)
    return Demo(tenant, users, password)


def _ensure_user(name: str, password: str) -> User:
    email = f"{name}@{_DOMAIN}"
    user = User.objects.filter(email=email).first()
    if user is None:
        user = User.objects.create_user(email, email, password, is_ops=name == "ops")
        EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)
    elif not user.check_password(password):
        # The password file was lost or replaced; it is what a person can read.
        user.set_password(password)
        user.save(update_fields=["password"])
    return user


def _password() -> str:
    """Made once; kept where only the owner of the state directory can read it."""
    path = StateDir(Path(settings.VAR_DIR)).demo_file
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(json.dumps({"password": secrets.token_urlsafe(12)}))
    return str(json.loads(path.read_text())["password"])
