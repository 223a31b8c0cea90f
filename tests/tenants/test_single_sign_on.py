"""Single sign-on against an OpenID Connect issuer that runs here, over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from apps.tenants import services
from apps.tenants.models import Invitation, Membership, Role, User
from tests.cast import Cast, make_user

pytestmark = pytest.mark.django_db


@dataclass
class Issuer:
    """Who it says has signed in."""

    url: str = ""
    claims: dict[str, Any] = field(default_factory=dict)

    def answer(self, path: str) -> dict[str, Any]:
        if path == "/token":
            return {"access_token": "token", "token_type": "Bearer"}
        if path == "/userinfo":
            return self.claims
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
        }


@pytest.fixture
def issuer(settings: Settings) -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.dumps(issuer.answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    app = {
        "provider_id": "oidc",
        "name": "Single sign-on",
        "client_id": "ragsite",
        "secret": "s",
        "settings": {"server_url": issuer.url},
    }
    settings.SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {**settings.SOCIALACCOUNT_PROVIDERS["openid_connect"], "APPS": [app]}
    }
    cache.clear()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield issuer
    server.shutdown()
    server.server_close()
    thread.join()


def come_back(issuer: Issuer, browser: Client, email: str, *, verified: bool = True) -> str:
    """Go to the issuer and back as `email`; returns the text of the page one lands on."""
    issuer.claims = {"sub": f"id of {email}", "email": email, "email_verified": verified}
    away = browser.post("/accounts/oidc/oidc/login/")
    query = parse_qs(urlsplit(away.headers["Location"]).query)
    assert query["code_challenge_method"] == ["S256"]
    landed = browser.get(
        "/accounts/oidc/oidc/login/callback/", {"code": "x", "state": query["state"][0]}
    )
    return landed.content.decode()


def is_signed_in_as(browser: Client, user: User) -> bool:
    return browser.session.get("_auth_user_id") == str(user.id)


def invite(cast: Cast, email: str) -> str:
    """The path of the invitation's link."""
    return services.invite(
        tenant=cast.acme,
        email=email,
        role=Role.MEMBER,
        actor=cast.alice,
        link="/invitations/{token}/",
    )


def test_the_button_is_there(issuer: Issuer) -> None:
    assert "Single sign-on" in Client().get("/accounts/login/").content.decode()


def test_an_account_with_the_same_confirmed_address_is_connected(
    issuer: Issuer, cast: Cast
) -> None:
    browser = Client()
    come_back(issuer, browser, "Bob@example.com")
    assert is_signed_in_as(browser, cast.bob)
    assert SocialAccount.objects.get().user == cast.bob
    assert User.objects.get(id=cast.bob.id).has_usable_password()


def test_an_unknown_address_is_refused(issuer: Issuer, cast: Cast) -> None:
    browser = Client()
    assert "Accounts come by invitation" in come_back(issuer, browser, "eve@example.com")
    assert not User.objects.filter(email="eve@example.com").exists()


def test_an_address_the_issuer_does_not_vouch_for_opens_nothing(issuer: Issuer, cast: Cast) -> None:
    invite(cast, "dora@example.com")
    for email in ("bob@example.com", "dora@example.com"):
        browser = Client()
        come_back(issuer, browser, email, verified=False)
        assert "_auth_user_id" not in browser.session
    assert not SocialAccount.objects.exists()


def test_an_account_that_never_confirmed_its_address_is_not_handed_over(
    issuer: Issuer, cast: Cast
) -> None:
    squatter = make_user("dora")
    EmailAddress.objects.filter(user=squatter).update(verified=False)
    invite(cast, "dora@example.com")
    browser = Client()
    assert "Accounts come by invitation" in come_back(issuer, browser, "dora@example.com")
    assert "_auth_user_id" not in browser.session


def test_an_invited_address_gets_an_account_and_is_in(issuer: Issuer, cast: Cast) -> None:
    invite(cast, "dora@example.com")
    browser = Client()
    come_back(issuer, browser, "dora@example.com")
    dora = User.objects.get(email="dora@example.com")
    assert is_signed_in_as(browser, dora)
    assert Membership.objects.get(user=dora).tenant == cast.acme
    assert not dora.has_usable_password()


def test_an_opened_link_is_for_its_own_address_only(issuer: Issuer, cast: Cast) -> None:
    browser = Client()
    browser.get(invite(cast, "dora@example.com"))
    come_back(issuer, browser, "eve@example.com")
    assert not User.objects.filter(email="eve@example.com").exists()
    assert Invitation.objects.get().accepted_at is None


def test_without_the_setting_there_is_no_way_in(cast: Cast) -> None:
    assert Client().post("/accounts/oidc/oidc/login/").status_code == 404
