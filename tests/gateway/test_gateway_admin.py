"""Operations configure upstreams, models and prices: what is at fault is said in words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from apps.gateway.calling import catalogue
from apps.gateway.models import GatewayModel, GatewayRoute, GatewayUpstream, Price
from apps.telemetry.models import AuditEvent
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db

UPSTREAM: dict[str, Any] = {
    "name": "gpu-1",
    "kind": "tgi",
    "url": "http://gpu-1:8080",  # a host without dots, as containers have
    "key_variable": "",
    "max_concurrency": 8,
    "queue_timeout_s": 10,
    "first_token_timeout_s": 60,
    "silence_timeout_s": 60,
    "deadline_s": 600,
    "enabled": "on",
}
MODEL: dict[str, Any] = {
    "alias": "large",
    "label": "Large",
    "kind": "chat",
    "context_tokens": 8192,
    "max_tokens": 1024,
    "passages": 8,
    "prompt": "instruct",
    "position": 100,
    "enabled": "on",
    "routes-TOTAL_FORMS": 1,
    "routes-INITIAL_FORMS": 0,
    "routes-0-weight": 1,
}
NEXT_YEAR = timezone.now() + timedelta(days=365)


@pytest.fixture
def staff(cast: Cast, settings: Settings) -> Client:
    settings.TGI_URL = "http://tgi.test"
    cast.olga.is_staff = cast.olga.is_superuser = True
    cast.olga.save()
    return signed_in(cast.olga)


def price(**fields: object) -> dict[str, Any]:
    begins = timezone.now() + timedelta(days=1)
    return {
        "upstream": "tgi",
        "valid_from_0": f"{begins:%Y-%m-%d}",
        "valid_from_1": "00:00:00",
        "input_micros_per_mtok": 150_000,
        "output_micros_per_mtok": 600_000,
        **fields,
    }


def told(browser: Client, kind: str, fields: dict[str, Any]) -> str:
    """What the form says; "" where it was saved."""
    response = browser.post(f"/admin/gateway/{kind}/add/", fields)
    if response.status_code == 302:
        return ""
    forms = [response.context["adminform"].form]
    forms += [form for one in response.context["inline_admin_formsets"] for form in one.formset]
    return " ".join(str(message) for form in forms for message in form.errors.values())


def make_upstream(**fields: Any) -> GatewayUpstream:
    return GatewayUpstream.objects.create(
        **{"name": "gpu-1", "kind": "tgi", "url": "http://g", **fields}
    )


def test_an_upstream_is_added_noted_and_counts_at_once(
    staff: Client, cast: Cast, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    assert catalogue.current().upstream("gpu-1") is None
    with django_capture_on_commit_callbacks(execute=True):
        assert told(staff, "gatewayupstream", UPSTREAM) == ""
    found = catalogue.current().upstream("gpu-1")
    assert found is not None
    assert found.url == "http://gpu-1:8080"
    event = AuditEvent.objects.get(action="upstream.added")
    assert event.actor_id == cast.olga.pk


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"url": "ftp://gpu.test"}, "must begin with http:// or https://"),
        ({"url": "javascript:alert(1)"}, "must begin with http:// or https://"),
        ({"url": "http://"}, "names no host"),
        ({"url": "http://me:pw@gpu.test"}, "key does not belong in the address"),
        ({"key_variable": "SECRET_KEY"}, "must begin with UPSTREAM_KEY_"),
        ({"key_variable": "UPSTREAM_KEY_NONE"}, "is not set where the site runs"),
        ({"max_concurrency": 0}, "1 to 100,000 calls"),
        ({"max_concurrency": -5}, "greater than or equal to 0"),
        ({"queue_timeout_s": -1}, "0 to 86,400 seconds"),
        ({"deadline_s": 0}, "0.1 to 86,400 seconds"),
        ({"deadline_s": "nan"}, "number"),
        ({"deadline_s": "inf"}, "number"),
        ({"silence_timeout_s": 1e9}, "0.1 to 86,400 seconds"),
        ({"name": "tgi"}, "settings have an upstream of that name"),
        ({"name": "not a slug"}, "slug"),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, dict) else None,
)
def test_what_no_upstream_can_be_is_told(staff: Client, fields: dict[str, Any], words: str) -> None:
    assert words in told(staff, "gatewayupstream", {**UPSTREAM, **fields})
    assert not GatewayUpstream.objects.exists()


def test_an_upstream_s_name_is_not_given_twice_nor_changed(staff: Client) -> None:
    row = make_upstream()
    assert "already exists" in told(staff, "gatewayupstream", UPSTREAM)
    staff.post(f"/admin/gateway/gatewayupstream/{row.id}/change/", {**UPSTREAM, "name": "other"})
    row.refresh_from_db()
    assert (row.name, row.url) == ("gpu-1", "http://gpu-1:8080")


def test_one_that_cannot_be_used_is_shown_with_its_reason(staff: Client) -> None:
    make_upstream(key_variable="UPSTREAM_KEY_GONE")
    page = staff.get("/admin/gateway/gatewayupstream/").content.decode()
    assert "The variable UPSTREAM_KEY_GONE is not set" in page


def test_a_model_is_added_with_its_route(staff: Client) -> None:
    row = make_upstream()
    assert told(staff, "gatewaymodel", {**MODEL, "routes-0-upstream": str(row.id)}) == ""
    catalogue.forget()
    assert catalogue.current().find("large").routes[0].upstream.name == "gpu-1"
    assert GatewayRoute.objects.count() == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"alias": "tgi"}, "settings have a model of that name"),
        ({"alias": "rag/handbook"}, "are those of collections"),
        ({"alias": "two words"}, "one word"),
        ({"max_tokens": 8192}, "must leave room for a prompt"),
        ({"max_tokens": 0}, "1 to 100,000,000 tokens"),
        ({"passages": 0}, "1 to 1,000 passages"),
        ({"context_tokens": 10**12}, "2 to 100,000,000 tokens"),
        ({"prompt": "shout"}, "not one of the available choices"),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, dict) else None,
)
def test_what_no_model_can_be_is_told(staff: Client, fields: dict[str, Any], words: str) -> None:
    at = {"routes-0-upstream": str(make_upstream().id)}
    assert words in told(staff, "gatewaymodel", {**MODEL, **at, **fields})
    assert not GatewayModel.objects.exists()


def test_a_route_to_an_upstream_that_cannot_serve_the_model_is_refused(staff: Client) -> None:
    row = make_upstream(name="reader", kind="tei")
    fields = {**MODEL, "routes-0-upstream": str(row.id)}
    assert "of kind tei serves no chat model" in told(staff, "gatewaymodel", fields)


def test_prices_by_the_token_and_by_the_hour_are_added(staff: Client) -> None:
    assert told(staff, "price", price()) == ""
    by_the_hour = price(
        upstream="embedding",
        input_micros_per_mtok=0,
        output_micros_per_mtok=0,
        hour_micros=3_600_000,
        input_tokens_per_s=2000,
        output_tokens_per_s=100,
    )
    make_upstream(name="embedding")
    assert told(staff, "price", by_the_hour) == ""
    assert Price.objects.count() == 2


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"input_micros_per_mtok": -1}, "Give 0 to"),
        ({"output_micros_per_mtok": -1}, "Give 0 to"),
        ({"cached_input_micros_per_mtok": -1}, "Give 0 to"),
        ({"input_micros_per_mtok": 10**12}, "Give 0 to"),
        ({"input_micros_per_mtok": 10**40}, "less than or equal to"),
        ({"hour_micros": 1}, "needs both throughputs"),
        ({"input_tokens_per_s": 10}, "needs both throughputs"),
        (
            {"hour_micros": 1, "input_tokens_per_s": 0, "output_tokens_per_s": 1},
            "tokens a second",
        ),
        (
            {"hour_micros": 1, "input_tokens_per_s": 1, "output_tokens_per_s": 1},
            "not both",
        ),
        ({"upstream": "gpt"}, "There is no upstream of that name. Known: "),
        ({"valid_from_0": "1970-01-01"}, "within ten years"),
        ({"valid_from_0": "9999-01-01"}, "within ten years"),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, dict) else None,
)
def test_an_absurd_price_is_told(staff: Client, fields: dict[str, Any], words: str) -> None:
    assert words in told(staff, "price", price(**fields))
    assert not Price.objects.exists()


def test_a_price_in_force_is_neither_changed_nor_deleted(staff: Client) -> None:
    past = Price.objects.create(upstream="tgi", valid_from=timezone.now() - timedelta(days=1))
    coming = Price.objects.create(upstream="tgi", valid_from=NEXT_YEAR)
    for row, status in ((past, 403), (coming, 200)):
        assert staff.get(f"/admin/gateway/price/{row.pk}/delete/").status_code == status
    changed = staff.post(f"/admin/gateway/price/{past.pk}/change/", price(note="other"))
    assert changed.status_code == 403


def test_what_is_deleted_is_noted(staff: Client) -> None:
    row = make_upstream()
    staff.post(f"/admin/gateway/gatewayupstream/{row.id}/delete/", {"post": "yes"})
    assert not GatewayUpstream.objects.exists()
    event = AuditEvent.objects.get(action="upstream.deleted")
    assert event.subject_id == str(row.id)


def test_it_is_for_staff_only(cast: Cast) -> None:
    for person in (cast.alice, cast.bob, None):
        response = signed_in(person).get("/admin/gateway/gatewayupstream/")
        assert response.status_code in (302, 403)
