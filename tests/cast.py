"""The people every test of rights is about, and the two tenants they belong to.

`cast` is a fixture of every test; it needs `@pytest.mark.django_db`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from allauth.account.models import EmailAddress
from django.test import Client
from pytest_django import Settings

from apps.tenants.models import Membership, Role, Tenant, User

PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class Cast:
    """Acme with one person per role, a rival tenant, and operations."""

    acme: Tenant
    rival: Tenant
    alice: User  # tenant manager of acme
    carl: User  # corpus admin of acme
    bob: User  # member of acme
    mallory: User  # tenant manager of the rival, nobody at acme
    olga: User  # site operations, member of nothing


@pytest.fixture(autouse=True)
def _fast_passwords(settings: Settings) -> None:
    """Hashing a password for real takes longer than most tests."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def cast() -> Cast:
    acme = Tenant.objects.create(slug="acme", name="Acme")
    rival = Tenant.objects.create(slug="rival", name="Rival")
    people = Cast(
        acme=acme,
        rival=rival,
        alice=make_user("alice"),
        carl=make_user("carl"),
        bob=make_user("bob"),
        mallory=make_user("mallory"),
        olga=make_user("olga", is_ops=True),
    )
    Membership.objects.create(tenant=acme, user=people.alice, role=Role.TENANT_MANAGER)
    Membership.objects.create(tenant=acme, user=people.carl, role=Role.CORPUS_ADMIN)
    Membership.objects.create(tenant=acme, user=people.bob, role=Role.MEMBER)
    Membership.objects.create(tenant=rival, user=people.mallory, role=Role.TENANT_MANAGER)
    return people


def make_user(name: str, *, is_ops: bool = False) -> User:
    """A person with a confirmed address `<name>@example.com` and the password `PASSWORD`."""
    user = User.objects.create_user(
        username=name, email=f"{name}@example.com", password=PASSWORD, is_ops=is_ops
    )
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    return user


def signed_in(user: User | None) -> Client:
    """A browser with `user` signed in; None for a stranger."""
    client = Client()
    if user is not None:
        client.force_login(user)
    return client
