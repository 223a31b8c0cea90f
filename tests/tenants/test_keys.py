"""API keys."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from apps.telemetry.models import AuditEvent
from apps.tenants import services
from apps.tenants.models import ApiKey
from apps.tenants.services.keys import PREFIX
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db


def make_key(cast: Cast, **changes: object) -> tuple[ApiKey, str]:
    arguments = {"name": "Nightly export", "expires_at": None, **changes}
    return services.create_key(tenant=cast.acme, actor=cast.alice, **arguments)  # type: ignore[arg-type]


def test_a_key_is_shown_once_and_kept_as_a_hash(cast: Cast) -> None:
    browser = signed_in(cast.alice)
    address = reverse("tenants:keys", args=["acme"])
    response = browser.post(address, {"name": "Nightly export", "days": "90"})
    shown = re.search(rf'value="({PREFIX}[\w-]+)"', response.content.decode())
    assert shown
    raw = shown.group(1)
    assert "no-store" in response.headers["Cache-Control"]
    assert raw not in browser.get(address).content.decode()
    stored = ApiKey.objects.values().get()
    assert raw not in {str(value) for value in stored.values()}
    key = services.authenticate_key(raw)
    assert key is not None
    assert key.tenant == cast.acme
    assert AuditEvent.objects.get(action="api_key.created").subject_id == f"key {key.id}"


def test_use_of_a_key_is_noted(cast: Cast) -> None:
    key, raw = make_key(cast)
    services.authenticate_key(raw)
    key.refresh_from_db()
    assert key.last_used_at is not None


@pytest.mark.parametrize("raw", ["", "rk_", "rk_" + "a" * 43, "\0", "é" * 50, "\ud800"])
def test_any_other_text_is_no_key(cast: Cast, raw: str) -> None:
    make_key(cast)
    assert services.authenticate_key(raw) is None


def test_the_hash_itself_is_no_key(cast: Cast) -> None:
    key, _ = make_key(cast)
    assert services.authenticate_key(key.key_hash) is None


def test_an_expired_key_stops_working(cast: Cast) -> None:
    _, raw = make_key(cast, expires_at=timezone.now() - timedelta(seconds=1))
    assert services.authenticate_key(raw) is None


def test_a_revoked_key_stops_working_after_a_question(cast: Cast) -> None:
    key, raw = make_key(cast)
    address = reverse("tenants:revoke_key", args=["acme", key.id])
    browser = signed_in(cast.alice)
    assert "Revoke Nightly export?" in browser.get(address).content.decode()
    assert services.authenticate_key(raw) is not None
    browser.post(address)
    assert services.authenticate_key(raw) is None
    assert AuditEvent.objects.filter(action="api_key.revoked").count() == 1


@pytest.mark.parametrize("form", [{"name": "", "days": "90"}, {"name": "x", "days": "100000"}])
def test_a_bad_form_makes_no_key(cast: Cast, form: dict[str, str]) -> None:
    response = signed_in(cast.alice).post(reverse("tenants:keys", args=["acme"]), form)
    assert "errorlist" in response.content.decode()
    assert not ApiKey.objects.exists()


def test_a_key_reads_unless_it_is_given_more(cast: Cast) -> None:
    address = reverse("tenants:keys", args=["acme"])
    browser = signed_in(cast.alice)
    browser.post(address, {"name": "Reader", "days": "90"})
    browser.post(address, {"name": "Writer", "days": "90", "scope": "manage"})
    assert dict(ApiKey.objects.values_list("name", "scope")) == {
        "Reader": "read",
        "Writer": "manage",
    }
    page = browser.get(address).content.decode()
    assert page.count("Read, upload and delete documents</td>") == 1


def test_a_key_can_be_narrowed_by_ids_or_addresses(cast: Cast) -> None:
    one, other = uuid.uuid4(), uuid.uuid4()
    address = reverse("tenants:keys", args=["acme"])
    browser = signed_in(cast.alice)
    text = f"{one}\nhttp://127.0.0.1/t/acme/documents/{str(other).upper()}/, {one}"
    browser.post(address, {"name": "Narrow", "days": "90", "collections": text})
    assert ApiKey.objects.get().collection_ids == sorted([one, other])
    assert "in 2 collections" in browser.get(address).content.decode()


@pytest.mark.parametrize("form", [{"scope": "everything"}, {"collections": "Handbook"}])
def test_a_key_is_not_made_wider_by_a_mistake(cast: Cast, form: dict[str, str]) -> None:
    data = {"name": "x", "days": "90", **form}
    response = signed_in(cast.alice).post(reverse("tenants:keys", args=["acme"]), data)
    assert "errorlist" in response.content.decode()
    assert not ApiKey.objects.exists()


def test_a_key_may_use_no_models_unless_it_says_so(cast: Cast) -> None:
    signed_in(cast.alice).post(reverse("tenants:keys", args=["acme"]), {"name": "K", "days": "30"})
    key = ApiKey.objects.get()
    assert (key.may_use_models, key.model_aliases) == (False, [])


def test_models_of_a_key_are_trimmed_and_each_named_once(cast: Cast) -> None:
    browser = signed_in(cast.alice)
    address = reverse("tenants:keys", args=["acme"])
    sent = {
        "name": "K",
        "days": "30",
        "may_use_models": "on",
        "models": " big one,\r\nsmall,,big one",
    }
    browser.post(address, sent)
    key = ApiKey.objects.get()
    assert (key.may_use_models, key.model_aliases) == (True, ["big one", "small"])
    assert "big one, small" in browser.get(address).content.decode()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"models": "small"}, "Tick this"),
        ({"may_use_models": "on", "models": "x" * 101}, "100 characters"),
    ],
)
def test_models_that_cannot_be_meant_are_refused(
    cast: Cast, sent: dict[str, str], words: str
) -> None:
    address = reverse("tenants:keys", args=["acme"])
    page = signed_in(cast.alice).post(address, {"name": "K", "days": "30", **sent})
    assert words in page.content.decode()
    assert not ApiKey.objects.exists()
