"""Signing in and out, passwords and the second factor."""

from __future__ import annotations

import re

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import (
    format_hotp_value,
    hotp_value,
    yield_hotp_counters_from_time,
)
from django.core import mail
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from apps.tenants.models import User
from tests.cast import PASSWORD, Cast, signed_in

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/login/"
NEW_PASSWORD = "a very different pass phrase"


@pytest.fixture(autouse=True)
def _no_tries_counted_yet() -> None:
    cache.clear()


def sign_in(browser: Client, email: str, password: str = PASSWORD, then: str = "/") -> str:
    """Where the browser is sent, or "" when it stays on the form."""
    response = browser.post(f"{LOGIN}?next={then}", {"login": email, "password": password})
    return response.headers.get("Location", "")


def is_signed_in(browser: Client) -> bool:
    return "_auth_user_id" in browser.session


def code_for(secret: str, *, step: int = 0) -> str:
    """An authenticator's code; of another time step each, as a code works once."""
    counters = list(yield_hotp_counters_from_time())
    return format_hotp_value(hotp_value(secret, counters[step]))


def confirm_password(browser: Client) -> None:
    browser.post(reverse("account_reauthenticate"), {"password": PASSWORD})


def turn_on_second_factor(browser: Client) -> str:
    """By the pages, which ask for the password once more; returns the secret."""
    assert browser.get(reverse("mfa_activate_totp")).status_code == 302
    confirm_password(browser)
    page = browser.get(reverse("mfa_activate_totp")).content.decode()
    assert 'src="data:image/svg+xml' in page
    found = re.search(r'id="authenticator_secret"[^>]* value="(\w+)"', page)
    assert found
    browser.post(reverse("mfa_activate_totp"), {"code": code_for(found[1])})
    assert Authenticator.objects.filter(type="totp").exists()
    return found[1]


def test_people_sign_in_by_address_and_password(cast: Cast) -> None:
    browser = Client()
    assert sign_in(browser, "Alice@Example.com", then="/t/acme/people/") == "/t/acme/people/"
    assert browser.get("/t/acme/people/").status_code == 200


@pytest.mark.parametrize(
    ("email", "password"),
    [("alice@example.com", "wrong"), ("nobody@example.com", PASSWORD), ("alice", PASSWORD)],
)
def test_what_was_wrong_about_a_sign_in_is_not_told(cast: Cast, email: str, password: str) -> None:
    browser = Client()
    assert sign_in(browser, email, password) == ""
    assert not is_signed_in(browser)


def test_signing_in_does_not_lead_to_another_site(cast: Cast) -> None:
    assert "evil" not in sign_in(Client(), "alice@example.com", then="https://evil.example/")


def test_tries_are_limited_even_with_the_right_password_at_last(cast: Cast) -> None:
    browser = Client()
    for _ in range(5):
        sign_in(browser, "alice@example.com", "wrong")
    assert sign_in(browser, "alice@example.com") == ""
    assert sign_in(Client(), "bob@example.com") == "/"


def test_signing_out_takes_a_post(cast: Cast) -> None:
    browser = signed_in(cast.alice)
    assert browser.get("/accounts/logout/").status_code == 200
    assert is_signed_in(browser)
    browser.post("/accounts/logout/")
    assert not is_signed_in(browser)


def test_a_forgotten_password_is_reset_by_mail(cast: Cast) -> None:
    browser = Client()
    browser.post("/accounts/password/reset/", {"email": "bob@example.com"})
    link = re.search(r"http://testserver(/accounts/password/reset/key/\S+)", mail.outbox[0].body)
    assert link
    page = browser.get(link[1], follow=True)
    browser.post(page.redirect_chain[-1][0], {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD})
    assert sign_in(Client(), "bob@example.com") == ""
    assert sign_in(Client(), "bob@example.com", NEW_PASSWORD) == "/"
    assert Client().get(link[1], follow=True).content.decode().find("password1") == -1


def test_a_reset_for_an_unknown_address_looks_the_same_and_mails_nothing(cast: Cast) -> None:
    known = Client().post("/accounts/password/reset/", {"email": "bob@example.com"})
    mail.outbox.clear()
    unknown = Client().post("/accounts/password/reset/", {"email": "nobody@example.com"})
    assert (unknown.status_code, unknown.headers["Location"]) == (
        known.status_code,
        known.headers["Location"],
    )
    assert mail.outbox == []


def test_a_changed_password_ends_other_sessions_and_is_mailed(cast: Cast) -> None:
    here, elsewhere = Client(), signed_in(cast.bob)
    sign_in(here, "bob@example.com")
    here.post(
        "/accounts/password/change/",
        {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD},
    )
    assert here.get("/accounts/2fa/").status_code == 200
    assert elsewhere.get("/accounts/2fa/").status_code == 302
    assert [message.to for message in mail.outbox] == [["bob@example.com"]]


@pytest.mark.parametrize("weak", ["short", "12345678901", "password123"])
def test_a_weak_password_is_refused(cast: Cast, weak: str) -> None:
    browser = Client()
    sign_in(browser, "bob@example.com")
    response = browser.post(
        "/accounts/password/change/",
        {"oldpassword": PASSWORD, "password1": weak, "password2": weak},
    )
    assert "errorlist" in response.content.decode()
    assert User.objects.get(id=cast.bob.id).check_password(PASSWORD)


def test_a_second_factor_is_asked_for_once_it_is_on(cast: Cast) -> None:
    browser = Client()
    sign_in(browser, "alice@example.com")
    secret = turn_on_second_factor(browser)
    fresh = Client()
    assert sign_in(fresh, "alice@example.com") == reverse("mfa_authenticate")
    assert not is_signed_in(fresh)
    assert fresh.get("/t/acme/people/").status_code == 302
    fresh.post(reverse("mfa_authenticate"), {"code": "000000"})
    assert not is_signed_in(fresh)
    fresh.post(reverse("mfa_authenticate"), {"code": code_for(secret, step=-1)})
    assert is_signed_in(fresh)


def test_a_recovery_code_works_once(cast: Cast) -> None:
    browser = Client()
    sign_in(browser, "alice@example.com")
    turn_on_second_factor(browser)
    code = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()[0]
    for expected in (True, False):
        fresh = Client()
        sign_in(fresh, "alice@example.com")
        fresh.post(reverse("mfa_authenticate"), {"code": code})
        assert is_signed_in(fresh) is expected


def test_the_second_factor_holds_for_the_administration(cast: Cast) -> None:
    cast.alice.is_staff = True
    cast.alice.save()
    browser = Client()
    sign_in(browser, "alice@example.com")
    turn_on_second_factor(browser)
    fresh = Client()
    assert sign_in(fresh, "alice@example.com", then="/admin/") == reverse("mfa_authenticate")
    assert fresh.get("/admin/").status_code == 302


PAGES = [
    *("account_email", "account_change_password", "account_logout", "account_reauthenticate"),
    *("mfa_index", "mfa_activate_totp", "socialaccount_connections"),
]
STRANGERS_PAGES = [
    *("account_login", "account_signup", "account_reset_password"),
    *("account_reset_password_done", "socialaccount_login_error"),
    *("socialaccount_login_cancelled",),
]
INLINE = re.compile(
    r"""\sstyle\s*=|\son\w+\s*=|<style|javascript:|<script(?![^>]*\bsrc=)(?![^>]*application/json)""",
    re.IGNORECASE,
)


@pytest.mark.parametrize("name", [*PAGES, *STRANGERS_PAGES])
def test_account_pages_wear_the_sites_frame_and_nothing_the_policy_forbids(
    cast: Cast, name: str
) -> None:
    browser = Client()
    if name in PAGES:
        sign_in(browser, "alice@example.com")
        confirm_password(browser)
    response = browser.get(reverse(name))
    page = response.content.decode()
    assert response.status_code == (401 if name == "socialaccount_login_error" else 200)
    assert "css/site.css" in page
    assert "css/accounts.css" in page
    assert not INLINE.search(page), INLINE.search(page)
    assert "script-src 'self'" in response.headers["Content-Security-Policy"]


def test_recovery_code_pages_are_clean_too(cast: Cast) -> None:
    browser = Client()
    sign_in(browser, "alice@example.com")
    turn_on_second_factor(browser)
    for name in ("mfa_index", "mfa_view_recovery_codes", "mfa_generate_recovery_codes"):
        page = browser.get(reverse(name)).content.decode()
        assert "css/accounts.css" in page
        assert not INLINE.search(page), INLINE.search(page)


def test_no_button_for_single_sign_on_where_it_is_off(cast: Cast) -> None:
    assert "Single sign-on" not in Client().get(LOGIN).content.decode()
