"""The pages about limits: what they show, and what they take."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core import mail
from django.core.cache import cache
from django.utils import timezone
from pytest_django import Settings

from apps.documents.models import DocumentUse
from apps.gateway.admission.selectors import window_of
from apps.gateway.models import BudgetAlert, BudgetCounter
from apps.tenants.limits import limits_of
from apps.tenants.models import Limit, Measure, Subject, Tenant
from apps.tenants.services import create_key
from tests.cast import Cast, signed_in
from tests.gateway.hooks import Hook

URL = "/t/acme/limits/"
OPS = "/ops/limits/"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_pause() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def limit(tenant: Tenant, measure: Measure, amount: int, **whom: Any) -> Limit:
    values = {"subject": Subject.TENANT, "given_by": "manager", **whom}
    return Limit.objects.create(tenant=tenant, measure=measure, amount=amount, **values)


def spend(tenant: Tenant, micros: int, **whom: Any) -> None:
    start, _ = window_of(Measure.MICROS_PER_MONTH, timezone.now(), tenant.time_zone)
    values = {"subject": "tenant", "subject_id": "", "used": micros, **whom}
    BudgetCounter.objects.create(
        tenant_id=tenant.id, measure="micros", window_start=start, **values
    )


def words(page: Any) -> str:
    """The text of a page, as it is read."""
    text = re.sub(r"<[^>]+>", " ", page.content.decode())
    return re.sub(r"\s+", " ", html.unescape(text))


def post(cast: Cast, **changes: str) -> Any:
    values = {"whom": "tenant", "measure": "documents", "amount": "10", "soft_percent": "80"}
    return signed_in(cast.alice).post(URL, values | changes)


def test_every_measure_is_there_with_what_is_used(cast: Cast) -> None:
    limit(cast.acme, Measure.MICROS_PER_MONTH, 10_000_000, given_by="ops")
    limit(cast.acme, Measure.MICROS_PER_MONTH, 5_000_000)
    spend(cast.acme, 4_500_000, reserved=250_000)
    DocumentUse.objects.create(tenant=cast.acme, subject="tenant", documents=7, bytes=2**20)
    page = words(signed_in(cast.alice).get(URL))
    for measure in Measure:
        assert str(measure.label) in page
    assert "$4.50 of $5.00 (90 %)" in page, "the tightest counts"
    assert "Nearly used up" in page
    assert "$0.25 reserved" in page
    assert "Begins anew" in page
    assert "7 documents" in page


@pytest.mark.parametrize(
    "zone", ["Asia/Kolkata", "Pacific/Chatham", "America/St_Johns", "No/Where"]
)
def test_windows_begin_at_midnight_where_the_tenant_is(cast: Cast, zone: str) -> None:
    cast.acme.time_zone = zone
    cast.acme.save()
    page = words(signed_in(cast.alice).get(URL))
    moments = re.findall(r"Begins anew \d+ \w+, (\d\d:\d\d)", page)
    assert moments == ["00:00"] * 2


def test_a_limit_is_set_in_the_units_of_people(cast: Cast) -> None:
    post(cast, measure="micros_per_month", amount="1,250.50", soft_percent="70")
    post(cast, measure="storage_bytes", amount="1.5 GB", whom="member")
    found = {each.measure: each for each in limits_of(cast.acme.id)}
    assert found["micros_per_month"].amount == 1_250_500_000
    assert found["micros_per_month"].soft_percent == 70
    assert (found["storage_bytes"].amount, found["storage_bytes"].subject) == (3 * 2**29, "member")


@pytest.mark.parametrize(
    "amount", ["-1", "NaN", "1e400", "１２３", "", "  ", "1,5", "9" * 40, "<script>", "1\x00"]
)
def test_what_is_no_amount_is_said_beside_the_field(cast: Cast, amount: str) -> None:
    page = post(cast, amount=amount)
    assert page.status_code == 200
    assert 'class="errorlist"' in page.content.decode()
    assert "The limit was not set." in words(page)
    assert not limits_of(cast.acme.id).exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("whom", "member:999999"),
        ("whom", "key:x"),
        ("whom", ""),
        ("measure", "apples"),
        ("soft_percent", "0"),
        ("soft_percent", "101"),
        ("soft_percent", "x"),
        ("whom", "a\x00"),
    ],
)
def test_choices_that_were_not_offered_are_refused(cast: Cast, field: str, value: str) -> None:
    assert post(cast, **{field: value}).status_code == 200
    assert not limits_of(cast.acme.id).exists()


def test_members_and_keys_of_another_tenant_are_not_offered(cast: Cast) -> None:
    foreign, _ = create_key(tenant=cast.rival, name="Spy", expires_at=None, actor=cast.mallory)
    page = signed_in(cast.alice).get(URL).content.decode()
    assert "mallory" not in page
    assert "Spy" not in page
    for whom in (f"member:{cast.mallory.id}", f"key:{foreign.id}"):
        post(cast, whom=whom)
    assert not limits_of(cast.acme.id).exists()


def test_more_than_operations_gave_is_refused_with_the_figure(cast: Cast) -> None:
    limit(cast.acme, Measure.DOCUMENTS, 5, given_by="ops")
    assert "given your organisation 5 documents" in words(post(cast))


def test_nothing_at_all_is_asked_about_first(cast: Cast) -> None:
    page = post(cast, amount="0")
    assert "nothing is allowed at all" in words(page)
    assert not limits_of(cast.acme.id).exists()
    post(cast, amount="0", confirmed="1")
    assert limits_of(cast.acme.id).get().amount == 0
    assert "Used up" in words(signed_in(cast.alice).get(URL))


def test_removing_is_asked_about_first(cast: Cast) -> None:
    found = limit(cast.acme, Measure.DOCUMENTS, 5)
    browser = signed_in(cast.alice)
    url = f"{URL}{found.id}/remove/"
    assert "Remove this limit?" in words(browser.get(url))
    assert limits_of(cast.acme.id).exists()
    browser.post(url)
    assert not limits_of(cast.acme.id).exists()


def test_what_operations_gave_is_not_a_managers_to_remove(cast: Cast) -> None:
    found = limit(cast.acme, Measure.DOCUMENTS, 5, given_by="ops")
    assert signed_in(cast.alice).post(f"{URL}{found.id}/remove/").status_code == 403
    assert limits_of(cast.acme.id).exists()


def test_the_form_begins_with_the_limit_to_be_changed(cast: Cast) -> None:
    limit(cast.acme, Measure.STORAGE_BYTES, 10 * 2**30, subject="member")
    page = signed_in(cast.alice).get(f"{URL}?whom=member&measure=storage_bytes")
    assert 'value="10 GB"' in page.content.decode()
    for hostile in ("member:1%00", "x" * 500, "%F0%9F%92%A9", "tenant:", ":::"):
        assert signed_in(cast.alice).get(f"{URL}?whom={hostile}&measure=%00").status_code == 200


def test_who_is_closest_to_a_limit_of_each_is_named(cast: Cast) -> None:
    limit(cast.acme, Measure.MICROS_PER_MONTH, 1_000_000, subject="member")
    spend(cast.acme, 400_000, subject="member", subject_id=str(cast.bob.id))
    spend(cast.acme, 100_000, subject="member", subject_id=str(cast.carl.id))
    assert "Closest: bob@example.com: $0.40 of $1.00 (40 %)" in words(
        signed_in(cast.alice).get(URL)
    )


def test_someone_who_has_left_is_shown_as_such(cast: Cast) -> None:
    limit(cast.acme, Measure.DOCUMENTS, 5, subject="member", subject_id="424242")
    limit(cast.acme, Measure.DOCUMENTS, 5, subject="key", subject_id="gone")
    page = words(signed_in(cast.alice).get(URL))
    assert "Someone who has left" in page
    assert "A key that is gone" in page


def test_names_that_are_hostile_are_shown_as_text(cast: Cast) -> None:
    create_key(
        tenant=cast.acme, name="<script>alert(1)</script>", expires_at=None, actor=cast.alice
    )
    assert "<script>alert(1)" not in signed_in(cast.alice).get(URL).content.decode()


# --- Alerts --------------------------------------------------------------------------------------


def alerts(cast: Cast, **changes: str) -> Any:
    values = {"mail_managers": "on", "emails": "", "webhook_url": ""}
    return signed_in(cast.alice).post(f"{URL}alerts/", values | changes, follow=True)


def test_where_alerts_go_is_saved_and_shown(cast: Cast, settings: Settings) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    page = alerts(cast, emails="a@x.example, b@x.example", webhook_url="http://127.0.0.1:9/in")
    text = page.content.decode()
    assert "a@x.example\nb@x.example" in text
    assert "http://127.0.0.1:9/in" in text
    assert "Show the secret" in text
    assert "To 3 addresses and the webhook" in words(page)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("webhook_url", "https://127.0.0.1/", "not on the public internet"),
        ("webhook_url", "http://example.com/", "Write the whole address"),
        ("webhook_url", "javascript:alert(1)", "Write the whole address"),
        ("emails", "nobody", "valid email address"),
        ("emails", " ".join(f"{n}@x.example" for n in range(11)), "10 are most"),
        ("emails", "a@x.example\r\nBcc: b@x.example", "valid email address"),
    ],
)
def test_a_place_that_cannot_be_is_refused(cast: Cast, field: str, value: str, says: str) -> None:
    assert says in words(alerts(cast, **{field: value}))


def test_a_test_says_what_came_of_it(cast: Cast, settings: Settings) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with Hook() as hook:
        hook.how = 500
        alerts(cast, webhook_url=hook.url)
        page = words(signed_in(cast.alice).post(f"{URL}alerts/test/", follow=True))
    assert "The test was mailed." in page
    assert "The webhook: it answers with status 500." in page
    again = words(signed_in(cast.alice).post(f"{URL}alerts/test/", follow=True))
    assert "sent just now" in again
    assert len(mail.outbox) == 1


def test_what_was_told_is_listed_with_what_failed(cast: Cast) -> None:
    values: dict[str, Any] = {
        "tenant_id": cast.acme.id,
        "limit_id": limit(cast.acme, Measure.DOCUMENTS, 10).id,
        "subject": "tenant",
        "measure": "documents",
        "used": 9,
        "limit": 10,
    }
    now = timezone.now()
    BudgetAlert.objects.create(threshold="soft", mailed_at=now, hook_error="nobody", **values)
    BudgetAlert.objects.create(
        threshold="hard", mail_error="mail_server", hook_error="timeout", due_at=now, **values
    )
    page = words(signed_in(cast.alice).get(URL))
    assert "9 of 10 documents (90 %)" in page
    assert "Mailed None is set" in page
    assert "Trying again: the mail server does not take it" in page
    assert "Trying again: it did not answer in time" in page


# --- Operations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["alice", "carl", "bob", "mallory"])
def test_the_page_of_operations_is_theirs_alone(cast: Cast, name: str) -> None:
    browser = signed_in(getattr(cast, name))
    for method in (browser.get, browser.post):
        assert method(OPS).status_code == 404
        assert method(f"{OPS}?tenant=acme").status_code == 404


def test_operations_see_every_organisation_with_its_use(cast: Cast) -> None:
    limit(cast.acme, Measure.MICROS_PER_MONTH, 10_000_000, given_by="ops")
    limit(cast.acme, Measure.MICROS_PER_MONTH, 2_000_000)
    spend(cast.acme, 1_000_000)
    page = words(signed_in(cast.olga).get(OPS))
    assert "Money a month: $10.00 , used $1.00 (limited to $2.00 by its managers)" in page
    assert "Rival No limit" in page
    assert "Rival" not in words(signed_in(cast.olga).get(f"{OPS}?q=acm"))
    assert signed_in(cast.olga).get(f"{OPS}?q=%00&page=-7").status_code == 200
    assert signed_in(cast.olga).get(f"{OPS}?tenant=%00").status_code == 200


def test_operations_give_change_and_take_back(cast: Cast) -> None:
    browser = signed_in(cast.olga)
    url = f"{OPS}?tenant=acme"
    given = {"measure": "tokens_per_day", "amount": "1,000,000", "soft_percent": "90"}
    assert browser.post(url, given).status_code == 302
    found = limits_of(cast.acme.id).get()
    assert (found.given_by, found.amount, found.soft_percent) == ("ops", 1_000_000, 90)
    assert "Remove this limit?" in words(browser.post(url, {"remove": str(found.id)}))
    browser.post(url, {"remove": str(found.id), "confirmed": "1"})
    assert not limits_of(cast.acme.id).exists()


def test_operations_are_asked_before_nothing_is_allowed(cast: Cast) -> None:
    browser, url = signed_in(cast.olga), f"{OPS}?tenant=acme"
    given = {"measure": "documents", "amount": "0", "soft_percent": "80"}
    assert "nothing is allowed at all" in words(browser.post(url, given))
    assert not limits_of(cast.acme.id).exists()
    browser.post(url, {**given, "confirmed": "1"})
    assert limits_of(cast.acme.id).get().amount == 0


def test_operations_do_not_take_away_what_a_manager_set(cast: Cast) -> None:
    found = limit(cast.acme, Measure.DOCUMENTS, 5)
    foreign = limit(cast.rival, Measure.DOCUMENTS, 5, given_by="ops")
    for each in (found, foreign):
        signed_in(cast.olga).post(f"{OPS}?tenant=acme", {"remove": str(each.id), "confirmed": "1"})
    assert Limit.objects.count() == 2


def test_an_organisation_that_is_not_there_is_not_found(cast: Cast) -> None:
    assert signed_in(cast.olga).get(f"{OPS}?tenant=nowhere").status_code == 404
