"""What is used and reserved of a budget, in the window that is running where the tenant is."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from apps.gateway.admission import selectors
from apps.gateway.admission.selectors import Use, usage_of, usages_of
from apps.gateway.models import BudgetCounter
from apps.tenants.limits import LimitRule
from apps.tenants.models import Measure, Subject
from tests.cast import Cast
from tests.gateway.spending import MONEY, TOKENS

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 30, 20, tzinfo=UTC)  # half past one on the first of December in Kolkata
DECEMBER = datetime(2026, 11, 30, 18, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _in_kolkata(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    cast.acme.time_zone = "Asia/Kolkata"
    monkeypatch.setattr(selectors.timezone, "now", lambda: NOW)


def rule(measure: Measure, subject: Subject = Subject.TENANT, subject_id: str = "") -> LimitRule:
    return LimitRule(uuid.uuid4(), subject, subject_id, measure, 1000, 80)


def counter(cast: Cast, used: int, **more: object) -> None:
    fields = {"subject": "tenant", "measure": "micros", "window_start": DECEMBER, **more}
    fields = {"tenant_id": cast.acme.id, **fields}
    BudgetCounter.objects.create(used=used, reserved=7, **fields)


def test_nothing_has_been_used_yet(cast: Cast) -> None:
    begins_anew = datetime(2026, 12, 31, 18, 30, tzinfo=UTC)
    assert usage_of(cast.acme, rule(MONEY)) == Use(0, 0, DECEMBER, begins_anew)


def test_the_running_window_is_that_of_where_the_tenant_is(cast: Cast) -> None:
    counter(cast, 5)
    counter(cast, 900, window_start=DECEMBER - timedelta(days=30))
    counter(cast, 800, tenant_id=cast.rival.id)
    found = usage_of(cast.acme, rule(MONEY))
    assert (found.used, found.reserved) == (5, 7)


def test_many_budgets_are_read_at_once_and_kept_apart(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    counter(cast, 1)
    counter(cast, 2, measure="tokens")
    counter(cast, 3, subject="member", subject_id="7")
    counter(cast, 4, subject="key", subject_id="7", measure="tokens")
    rules = [
        rule(TOKENS, Subject.KEY, "7"),
        rule(MONEY, Subject.MEMBER, "7"),
        rule(MONEY, Subject.KEY, "7"),
        rule(TOKENS),
        rule(MONEY),
    ]
    with django_assert_num_queries(1):
        assert [use.used for use in usages_of(cast.acme, rules)] == [4, 3, 0, 2, 1]


def test_what_has_no_window_is_no_budget(cast: Cast) -> None:
    for measure in (Measure.REQUESTS_PER_MINUTE, Measure.DOCUMENTS):
        with pytest.raises(ValueError, match="no budget"):
            usage_of(cast.acme, rule(measure))
