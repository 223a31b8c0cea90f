"""What caches did: ratios with their denominators, reasons, and what was saved."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from django.utils import timezone

from apps.gateway.ledger.selectors import CacheLine
from apps.gateway.models import LedgerEntry
from apps.ops.caches import add_up, bypass_words
from apps.tenants.models import Tenant, User
from tests.cast import Cast, signed_in
from tests.gateway.entries import booked

pytestmark = pytest.mark.django_db

PAGE = "/t/acme/costs/caches/"
OPS_PAGE = "/ops/caches/"


def call(tenant: Tenant, cache: str, count: int = 1, **changes: Any) -> None:
    at = changes.pop("at", timezone.now())
    for _ in range(count):
        booked(tenant.id, at, cache=cache, **changes)


def card(user: User, name: str = "response", page: str = PAGE, **query: str) -> str:
    """The words of one cache's card."""
    response = signed_in(user).get(page, query)
    assert response.status_code == 200
    found = re.search(rf'id="card-{name}">(.*?)</section>', response.content.decode(), re.DOTALL)
    assert found, f"no card {name}"
    words = unescape(re.sub("<[^>]*>", " ", found[1]))
    return re.sub(r"\s+", " ", words).replace(" ;", ";").strip()


def test_the_ratio_has_its_denominator_and_what_was_bypassed_is_beside_it(cast: Cast) -> None:
    call(cast.acme, "hit", 9, saved_micros=500, saved_ms=2_000)
    call(cast.acme, "semantic", 2, saved_micros=500, saved_ms=2_000)
    call(cast.acme, "shared", 1)
    call(cast.acme, "miss", 26)
    call(cast.acme, "error", 2)
    call(cast.acme, "bypassed", 5, cache_reason="some_reason")
    call(cast.acme, "bypassed", 4, cache_reason="history")
    call(cast.acme, "none", 7)
    call(cast.rival, "hit", 3)
    words = card(cast.alice)
    assert "12 of 40 eligible (30 %) were there already; 9 more were bypassed ." in words
    assert "9 exactly, 2 of the same meaning, 1 shared" in words
    assert "26 made anew; 2 more because the cache could not be read" in words
    assert "$0.0055" in words
    assert "22 s" in words
    assert re.search("Some reason 5 A follow-up question: its answer [a-z ]+ 4", words)


def test_what_was_saved_is_not_said_to_be_nothing_where_it_is_not_known(cast: Cast) -> None:
    call(cast.acme, "hit", 2)
    words = card(cast.alice)
    assert "Money saved not known" in words
    assert "Time saved not known" in words
    assert "$0.00" not in words


def test_vectors_of_questions_are_a_cache_of_their_own(cast: Cast) -> None:
    call(cast.acme, "hit", 3, hop="embed")
    call(cast.acme, "miss", 1, hop="embed")
    assert "3 of 4 eligible (75 %)" in card(cast.alice, "question-embedding")
    assert "Nothing came by in these days." in card(cast.alice)


def test_all_bypassed_is_no_ratio(cast: Cast) -> None:
    call(cast.acme, "bypassed", 2, cache_reason="x")
    words = card(cast.alice)
    assert "0 of 0 eligible; 2 more were bypassed" in words
    assert "%" not in words


def test_without_anything_the_page_says_what_is_eligible(cast: Cast) -> None:
    for user, page in ((cast.alice, PAGE), (cast.olga, OPS_PAGE)):
        text = signed_in(user).get(page).content.decode()
        assert "A question is eligible when" in text
        assert "<dl" not in text


def test_a_ratio_is_not_rounded_to_all_or_nothing(cast: Cast) -> None:
    call(cast.acme, "miss", 1)
    LedgerEntry.objects.bulk_create(
        LedgerEntry(
            tenant_id=cast.acme.id, hop="generate", model="m", cache="hit", outcome="complete"
        )
        for _ in range(300)
    )
    assert "300 of 301 eligible (> 99 %)" in card(cast.alice)


def test_each_day_has_a_column_and_a_line_that_say_the_same(cast: Cast) -> None:
    call(cast.acme, "hit", 2, at=datetime(2026, 3, 2, 9, tzinfo=UTC))
    call(cast.acme, "miss", 3, at=datetime(2026, 3, 2, 10, tzinfo=UTC))
    call(cast.acme, "bypassed", 1, at=datetime(2026, 3, 3, tzinfo=UTC), cache_reason="x")
    own = {"period": "own", "from": "2026-03-01", "to": "2026-03-03"}
    page = signed_in(cast.alice).get(PAGE, own).content.decode()
    assert 'aria-label="Mon 2 March: 2 of 5 eligible found"' in page
    line = re.search(r'<tr id="day-2026-03-02">(.*?)</tr>', page, re.DOTALL)
    assert line
    assert re.findall(r">([^<>]+)</t[hd]>", line[1])[:5] == [
        "Mon 2 March",
        "5",
        "2",
        "40\N{NO-BREAK SPACE}%",
        "0",
    ]


def test_operations_see_all_tenants_together(cast: Cast) -> None:
    call(cast.acme, "hit")
    call(cast.rival, "miss")
    assert "1 of 2 eligible (50 %)" in card(cast.olga, page=OPS_PAGE)


def test_months_add_up_their_days() -> None:
    line = CacheLine("response", 1, 2, 3, 4, {"a": 1, "b": 2}, 5, 6, 7.0)
    summed = add_up([line, line])
    assert summed == CacheLine("response", 2, 4, 6, 8, {"a": 2, "b": 4}, 10, 12, 14.0)


def test_a_reason_without_words_is_said_as_it_is() -> None:
    assert bypass_words("brand_new_reason") == "brand new reason"
    assert bypass_words("") == "for no reason that was noted"
