"""Invitations: made, mailed, opened, accepted, taken back."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.core import mail
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from apps.telemetry.models import AuditEvent
from apps.tenants.models import Invitation, Membership, Role, User
from tests.cast import PASSWORD, Cast, make_user, signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_tries_counted_yet() -> None:
    cache.clear()


def invite(cast: Cast, email: str, role: str = "member") -> str:
    """Invite by the page; returns the link's path."""
    response = signed_in(cast.alice).post(
        reverse("tenants:invite", args=["acme"]), {"email": email, "role": role}
    )
    found = re.search(r"http://testserver(/invitations/[^\"/]+/)", response.content.decode())
    assert found, response.content.decode()
    return found.group(1)


def sign_up(browser: Client, **form: str) -> None:
    browser.post(reverse("account_signup"), {"password1": "a long enough pass phrase", **form})


def test_the_link_is_mailed_and_only_its_hash_is_kept(
    cast: Cast, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        link = invite(cast, "dora@example.com")
    assert link in mail.outbox[0].body
    assert mail.outbox[0].to == ["dora@example.com"]
    token = link.split("/")[2]
    stored = Invitation.objects.get()
    assert token not in {stored.token_hash, str(stored.id)}
    assert AuditEvent.objects.get(action="invitation.created").subject_id == (
        f"invitation {stored.id}"
    )


def test_an_invited_person_signs_up_and_is_in(cast: Cast) -> None:
    link = invite(cast, "dora@example.com", "corpus_admin")
    browser = Client()
    page = browser.get(link, follow=True).content.decode()
    assert "Make an account" in page
    sign_up(browser)
    dora = User.objects.get(email="dora@example.com")
    assert Membership.objects.get(user=dora).role == Role.CORPUS_ADMIN
    assert browser.get(reverse("tenants:settings", args=["acme"])).status_code == 403


@pytest.mark.parametrize("query", ["", "?email=eve@example.com"])
def test_signing_up_is_for_the_invited_address_only(cast: Cast, query: str) -> None:
    browser = Client()
    browser.get(invite(cast, "dora@example.com"))
    form = {"email": "eve@example.com", "password1": "a long enough pass phrase"}
    browser.post(reverse("account_signup") + query, form)
    assert not User.objects.filter(email="eve@example.com").exists()
    assert User.objects.filter(email="dora@example.com").exists()


def test_nobody_signs_up_without_an_invitation(cast: Cast) -> None:
    browser = Client()
    page = browser.get(reverse("account_signup")).content.decode()
    assert "Accounts come by invitation" in page
    sign_up(browser, email="eve@example.com")
    assert not User.objects.filter(email="eve@example.com").exists()


def test_an_invitation_makes_one_account(cast: Cast) -> None:
    link = invite(cast, "dora@example.com")
    first, second = Client(), Client()
    first.get(link)
    sign_up(first)
    assert second.get(link).status_code == 404
    sign_up(second, email="eve@example.com")
    assert User.objects.filter(email__in=["dora@example.com", "eve@example.com"]).count() == 1


def test_someone_with_an_account_signs_in_and_confirms(cast: Cast) -> None:
    dora = make_user("dora")
    browser = Client()
    page = browser.get(invite(cast, "Dora@example.com"), follow=True).content.decode()
    assert "Sign in with it to join" in page
    browser.post(
        reverse("account_login") + "?next=/invitation/",
        {"login": "dora@example.com", "password": PASSWORD},
    )
    assert not Membership.objects.filter(user=dora).exists()
    browser.post(reverse("tenants:invitation"))
    assert Membership.objects.get(user=dora).tenant_id == cast.acme.id


def test_a_forwarded_link_does_not_let_another_person_in(cast: Cast) -> None:
    browser = signed_in(cast.mallory)
    page = browser.get(invite(cast, "dora@example.com"), follow=True).content.decode()
    assert "You are signed in as mallory@example.com" in page
    browser.post(reverse("tenants:invitation"))
    assert not Membership.objects.filter(tenant=cast.acme, user=cast.mallory).exists()


def test_an_expired_link_is_refused(cast: Cast) -> None:
    link = invite(cast, "dora@example.com")
    opened = Client()
    opened.get(link)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert Client().get(link).status_code == 404
    assert opened.get(reverse("tenants:invitation")).status_code == 404
    sign_up(opened)
    assert not User.objects.filter(email="dora@example.com").exists()


def test_a_link_taken_back_is_refused_even_when_opened_before(cast: Cast) -> None:
    opened = Client()
    opened.get(invite(cast, "dora@example.com"))
    address = reverse("tenants:revoke_invitation", args=["acme", Invitation.objects.get().id])
    manager = signed_in(cast.alice)
    assert "Take back" in manager.get(address).content.decode()
    manager.post(address)
    sign_up(opened)
    assert not User.objects.filter(email="dora@example.com").exists()


def test_inviting_again_replaces_the_link(cast: Cast) -> None:
    first = invite(cast, "dora@example.com")
    second = invite(cast, "DORA@example.com")
    assert Client().get(first).status_code == 404
    assert Client().get(second).status_code == 302


def test_a_member_is_not_invited_again(cast: Cast) -> None:
    response = signed_in(cast.alice).post(
        reverse("tenants:invite", args=["acme"]), {"email": "BOB@example.com", "role": "member"}
    )
    assert "is a member already" in response.content.decode()
    assert not Invitation.objects.exists()


@pytest.mark.parametrize("token", ["x", "TOKEN", "é", "%00", "a" * 4000])
def test_a_guessed_link_tells_nothing(cast: Cast, token: str) -> None:
    assert Client().get(f"/invitations/{token}/").status_code == 404


def test_a_mail_server_that_is_down_does_not_lose_the_invitation(
    cast: Cast,
    settings: Settings,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    with django_capture_on_commit_callbacks(execute=True):
        link = invite(cast, "dora@example.com")
    assert Client().get(link).status_code == 302
