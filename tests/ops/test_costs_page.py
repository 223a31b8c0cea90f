"""What calls cost: to a tenant's managers with names, to operations without those of people."""

from __future__ import annotations

import re
import uuid
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.chat.models import Conversation
from apps.documents.models import Collection
from apps.gateway.models import LedgerEntry
from apps.ops import costs
from apps.tenants.models import ApiKey, Limit, Measure, Membership, Subject, Tenant, User
from apps.tenants.scope import tenant_scope
from apps.tenants.tokens import hash_token
from tests.cast import Cast, signed_in
from tests.gateway.entries import booked, medley

pytestmark = pytest.mark.django_db

PAGE = "/t/acme/costs/"
OPS_PAGE = "/ops/costs/"
HOSTILE = "=cmd|' /C calc'!A0"
LONG = "\N{RIGHT-TO-LEFT OVERRIDE}" + "w" * 199


def call(tenant: Tenant, **changes: Any) -> LedgerEntry:
    """A call of a moment ago, which is in every choice of days but the last month's."""
    return booked(tenant.id, changes.pop("at", timezone.now()), **changes)


def collection(tenant: Tenant, name: str) -> Collection:
    with tenant_scope(tenant.id):
        return Collection.objects.create(tenant=tenant, name=name)


def api_key(tenant: Tenant, name: str) -> ApiKey:
    return ApiKey.objects.create(tenant=tenant, name=name, prefix="rk_", key_hash=hash_token(name))


def conversation(tenant: Tenant, user: User) -> Conversation:
    with tenant_scope(tenant.id):
        return Conversation.objects.create(tenant=tenant, user=user, title="Secret plans")


def page_of(user: User | None, page: str = PAGE, **query: str) -> str:
    response = signed_in(user).get(page, query)
    assert response.status_code == 200
    return response.content.decode()


def shown(page: str, element: str) -> str:
    """The words of the element with that id."""
    found = re.search(rf'id="{element}"[^>]*>(.*?)</(?:dd|strong)>', page, re.DOTALL)
    assert found, f"no element {element}"
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", "", found[1])).strip()


def table(page: str, dimension: str) -> list[list[str]]:
    """The cells of a table's body, without tags."""
    found = re.search(rf'id="table-{dimension}".*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    assert found, f"no table {dimension}"
    return [
        [
            re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", cell)).strip()
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", found[1], re.DOTALL)
    ]


# --- Who may see it ------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [PAGE, f"{PAGE}export/", f"{PAGE}caches/"])
@pytest.mark.parametrize(
    ("who", "status"),
    [("alice", 200), ("carl", 403), ("bob", 403), ("mallory", 404), ("olga", 404), (None, 302)],
)
def test_only_managers_see_their_tenants_costs(
    cast: Cast, who: str | None, status: int, page: str
) -> None:
    user = getattr(cast, who) if who else None
    assert signed_in(user).get(page).status_code == status


@pytest.mark.parametrize("page", [OPS_PAGE, f"{OPS_PAGE}export/", "/ops/caches/"])
@pytest.mark.parametrize(
    ("who", "status"),
    [("olga", 200), ("alice", 404), ("carl", 404), ("bob", 404), ("mallory", 404), (None, 302)],
)
def test_only_operations_see_all_tenants_costs(
    cast: Cast, who: str | None, status: int, page: str
) -> None:
    user = getattr(cast, who) if who else None
    assert signed_in(user).get(page).status_code == status


def test_a_grant_to_read_does_not_open_the_costs(cast: Cast) -> None:
    Tenant.objects.filter(id=cast.acme.id).update(ops_may_read_text=True)
    assert signed_in(cast.olga).get(PAGE).status_code == 403


def test_nothing_of_another_tenant_is_counted(cast: Cast) -> None:
    call(cast.acme, cost_micros=1_000_000)
    call(cast.rival, cost_micros=9_000_000, model="rivals-own", user_id=cast.mallory.id)
    page = page_of(cast.alice)
    assert shown(page, "spent") == "$1.00"
    assert "rivals-own" not in page
    assert "mallory" not in page


# --- The figures ---------------------------------------------------------------------------------


def test_the_figures_are_the_ledgers(cast: Cast) -> None:
    here, there = uuid.uuid4(), uuid.uuid4()
    call(cast.acme, cost_micros=3_000, conversation_id=here, prompt_tokens=900, output_tokens=100)
    call(cast.acme, cost_micros=1_000, conversation_id=there, hop="rewrite")
    call(cast.acme, cost_micros=2_000, conversation_id=there, prompt_tokens=1_000)
    call(cast.acme, cost_micros=500, hop="embed", source="ingestion", output_tokens=0)
    page = page_of(cast.alice)
    assert shown(page, "spent") == "$0.0065"
    assert shown(page, "answers") == "2"
    assert shown(page, "per-answer") == "$0.00325"
    assert shown(page, "per-conversation") == "$0.003"
    assert "of 2 conversations" in page
    assert shown(page, "tokens") == "2,220"
    assert "2,100 read; 120 written" in page


def test_tables_add_up_to_the_whole(cast: Cast) -> None:
    LedgerEntry.objects.bulk_create(
        medley(cast.acme.id, 300, begin=timezone.now() - timedelta(hours=40), hours=40)
    )
    for tenant_id, dimensions in ((cast.acme.id, costs.OF_A_TENANT), (None, costs.OF_ALL)):
        period = costs_period()
        read = costs.read_costs(tenant_id, period, costs.OpsNames(), dimensions=dimensions)
        assert read.totals.calls == 300
        assert costs.add_up(each.sums for each in read.slices) == read.totals
        for each in read.tables:
            summed = costs.add_up(row.sums for row in each.rows)
            assert counts(summed) == counts(read.totals), each.dimension
            assert sum(row.share or 0 for row in each.rows) == pytest.approx(1)


def counts(sums: costs.Sums) -> dict[str, int]:
    """All but the times, whose last digits depend on the order of adding."""
    return {name: value for name, value in asdict(sums).items() if not name.endswith("_ms")}


def costs_period() -> Any:
    today = timezone.now().date()
    return costs.Period(today - timedelta(days=5), today)


def test_long_tables_keep_the_dearest_and_add_up_the_rest(cast: Cast) -> None:
    for number in range(costs.ROWS_SHOWN + 5):
        call(cast.acme, model=f"model-{number:02}", cost_micros=1_000_000 - number)
    rows = table(page_of(cast.alice), "model")
    assert len(rows) == costs.ROWS_SHOWN + 1
    assert rows[0][0] == "model-00"
    assert rows[-1][0] == "5 others"
    assert rows[-1][1] == "$5.00"


def test_names_are_looked_up_and_those_that_are_gone_are_said(cast: Cast) -> None:
    shelf, key = collection(cast.acme, "Handbook"), api_key(cast.acme, "Robot")
    ours = {"collection_ids": [shelf.id], "key_id": key.id}
    call(cast.acme, user_id=cast.bob.id, cost_micros=90, **ours)
    call(cast.acme, user_id=cast.mallory.id, collection_ids=[uuid.UUID(int=5)], cost_micros=80)
    call(cast.acme, collection_ids=[shelf.id, uuid.uuid4()], key_id=uuid.UUID(int=6), cost_micros=7)
    call(cast.acme, source="ingestion", hop="embed", cost_micros=6)
    page = page_of(cast.alice)
    assert [row[0] for row in table(page, "user")] == [
        *("bob@example.com", f"Someone who has left no. {cast.mallory.id}", "No person"),
    ]
    assert [row[0] for row in table(page, "key")] == [
        *("Robot", "Without a key", "A deleted key 00000000"),
    ]
    assert [row[0] for row in table(page, "collection")] == [
        *("Handbook", "A deleted collection 00000000", "Several collections at once"),
        "No collection",
    ]
    assert [row[0] for row in table(page, "source")] == ["Chat", "Reading documents"]


def test_a_revoked_key_says_so(cast: Cast) -> None:
    key = api_key(cast.acme, "Robot")
    ApiKey.objects.filter(id=key.id).update(revoked_at=timezone.now())
    call(cast.acme, key_id=key.id)
    assert table(page_of(cast.alice), "key")[0][0] == "Robot revoked"


def test_names_of_another_tenant_are_not_looked_up(cast: Cast) -> None:
    shelf, key = collection(cast.rival, "Their plans"), api_key(cast.rival, "Their robot")
    call(cast.acme, collection_ids=[shelf.id], key_id=key.id, user_id=cast.mallory.id)
    page = page_of(cast.alice)
    assert "Their" not in page
    assert "mallory" not in page


@pytest.mark.parametrize("name", [HOSTILE, LONG, "<b>bold</b>", "a\N{RIGHT-TO-LEFT MARK}b"])
def test_any_name_is_shown_as_it_stands_and_ends_with_its_element(cast: Cast, name: str) -> None:
    shelf = collection(cast.acme, name)
    key = api_key(cast.acme, name[:100])
    call(cast.acme, collection_ids=[shelf.id], key_id=key.id, model=name[:100])
    page = page_of(cast.alice)
    assert "<b>bold" not in page
    assert page.count("<bdi") == page.count("</bdi>") > 3


# --- What is not known ---------------------------------------------------------------------------


def test_an_unknown_cost_is_never_nothing(cast: Cast) -> None:
    for _ in range(3):
        call(cast.acme, price_id=None, cost_micros=0, conversation_id=uuid.UUID(int=1))
    page = page_of(cast.alice)
    for figure in ("spent", "per-answer", "per-conversation"):
        assert shown(page, figure) == "not known"
    assert "The cost of 3 of 3 calls is not known" in page
    assert table(page, "model")[0][1:3] == ["not known 3 of 3 without a price", "–"]
    assert "$0.00" not in page
    assert "Set a price" not in page


def test_a_cost_that_is_known_in_part_is_a_lower_bound(cast: Cast) -> None:
    call(cast.acme, cost_micros=250)
    call(cast.acme, price_id=None, cost_micros=0, upstream="beta", tokens_estimated=True)
    page = page_of(cast.alice)
    assert shown(page, "spent") == "at least $0.00025"
    assert shown(page, "per-answer") == "at least $0.000125"
    assert "The cost of 1 of 2 calls is not known" in page
    assert "The tokens of 1 of 2 calls were counted here" in page


def test_a_cached_answer_costs_nothing_and_that_is_known(cast: Cast) -> None:
    call(cast.acme, cache="hit", upstream="", price_id=None, cost_micros=0, saved_micros=250)
    page = page_of(cast.alice)
    assert shown(page, "spent") == "$0.00"
    assert "is not known" not in page


def test_without_calls_the_page_says_what_to_do(cast: Cast) -> None:
    page = page_of(cast.alice)
    assert "No call in these days" in page
    assert "CSV" not in page
    assert "<table" not in page


def test_failures_are_counted(cast: Cast) -> None:
    call(cast.acme, outcome="failed", cost_micros=0)
    call(cast.acme)
    assert "1 of 2 calls failed" in page_of(cast.alice)


# --- The running month ---------------------------------------------------------------------------


def budget(tenant: Tenant, micros: int, given_by: str = "manager", **changes: Any) -> Limit:
    return Limit.objects.create(
        tenant=tenant,
        measure=Measure.MICROS_PER_MONTH,
        amount=micros,
        given_by=given_by,
        **{"subject": Subject.TENANT, **changes},
    )


def test_the_tightest_budget_of_the_tenant_is_held_against_the_month(cast: Cast) -> None:
    budget(cast.acme, 9_000_000, "ops")
    budget(cast.acme, 4_000_000)
    budget(cast.acme, 1_000_000, subject=Subject.MEMBER)
    budget(cast.rival, 1)
    call(cast.acme, cost_micros=1_000_000)
    page = page_of(cast.alice)
    assert shown(page, "month-budget") == "$4.00"
    assert shown(page, "month-spent") == "$1.00"
    assert "(25\N{NO-BREAK SPACE}%)" in page


@pytest.mark.parametrize("amount", [0, 1_000_000])
def test_a_budget_that_is_used_up_says_so(cast: Cast, amount: int) -> None:
    budget(cast.acme, amount)
    call(cast.acme, cost_micros=1_000_000)
    assert "Budget used up" in page_of(cast.alice)


def test_without_a_budget_none_is_made_up(cast: Cast) -> None:
    call(cast.acme)
    assert "No budget is set for the month." in page_of(cast.alice)


def test_a_month_that_has_just_begun_is_not_projected(cast: Cast) -> None:
    call(cast.acme)
    assert "It is too early to say" in page_of(cast.alice)


def month(spent: int, projected: int | None, limit: int | None) -> costs.Budget:
    return costs.Budget(
        costs.Projection(spent, projected, 10.0, 30), limit, costs.Sums(cost_micros=spent, calls=1)
    )


@pytest.mark.parametrize(
    ("spent", "projected", "limit", "over", "bar"),
    [
        (10, 30, 100, 0, (10, 30, 100)),
        (10, 200, 100, 100, (5, 100, 50)),
        (150, 150, 100, 50, (100, 100, 66.67)),
        (10, None, 100, 0, (10, 10, 100)),
        (0, 0, 0, 0, (0, 0, 0)),
        (5, 10, None, 0, (50, 100, 0)),
    ],
)
def test_the_bar_fits_what_is_longest(
    spent: int, projected: int | None, limit: int | None, over: int, bar: tuple[float, ...]
) -> None:
    made = month(spent, projected, limit)
    assert made.over_micros == over
    assert (made.spent_percent, made.projected_percent, made.limit_percent) == bar


# --- Conversations -------------------------------------------------------------------------------


def test_only_ones_own_conversations_can_be_opened(cast: Cast) -> None:
    own, other = conversation(cast.acme, cast.alice), conversation(cast.acme, cast.bob)
    gone = uuid.uuid4()
    call(cast.acme, user_id=cast.alice.id, conversation_id=own.id, cost_micros=3)
    call(cast.acme, user_id=cast.bob.id, conversation_id=other.id, cost_micros=2)
    call(cast.acme, user_id=cast.alice.id, conversation_id=gone, cost_micros=1)
    page = page_of(cast.alice)
    assert f"/chat/{own.id}/" in page
    assert str(other.id) not in page
    assert str(gone) not in page
    assert "Secret plans" not in page
    assert len(table(page, "dearest")) == 3


# --- Days ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time_zone", "at", "day"),
    [
        ("Asia/Kolkata", datetime(2026, 3, 9, 18, 30, tzinfo=UTC), "2026-03-10"),
        ("Pacific/Chatham", datetime(2026, 3, 10, 10, 14, tzinfo=UTC), "2026-03-10"),
        ("Pacific/Chatham", datetime(2026, 3, 10, 10, 15, tzinfo=UTC), "2026-03-11"),
        # Clocks go forward: this day has 23 hours.
        ("Europe/Berlin", datetime(2026, 3, 29, 21, 59, tzinfo=UTC), "2026-03-29"),
        ("Europe/Berlin", datetime(2026, 3, 29, 22, 0, tzinfo=UTC), "2026-03-30"),
        # They go back: 25 hours.
        ("America/New_York", datetime(2025, 11, 3, 4, 59, tzinfo=UTC), "2025-11-02"),
    ],
)
def test_a_call_belongs_to_the_day_that_it_was_there(
    cast: Cast, time_zone: str, at: datetime, day: str
) -> None:
    Tenant.objects.filter(id=cast.acme.id).update(time_zone=time_zone)
    call(cast.acme, at=at, cost_micros=5_000)
    own = {"period": "own", "from": day, "to": day}
    assert shown(page_of(cast.alice, **own), "spent") == "$0.005"


def test_every_day_has_a_column_and_a_line_that_say_the_same(cast: Cast) -> None:
    call(cast.acme, at=datetime(2026, 3, 2, 9, tzinfo=UTC), cost_micros=20_000)
    call(cast.acme, at=datetime(2026, 3, 3, 9, tzinfo=UTC), cost_micros=0, price_id=None)
    page = page_of(cast.alice, **{"period": "own", "from": "2026-03-01", "to": "2026-03-04"})
    assert page.count('class="column"') == 4
    for day in range(1, 5):
        assert f'href="#day-2026-03-0{day}"' in page
        assert f'<tr id="day-2026-03-0{day}">' in page
    assert 'aria-label="Mon 2 March: $0.02, 1 answer"' in page
    assert 'aria-label="Tue 3 March: cost not known, 1 answer"' in page
    assert 'aria-label="Wed 4 March: no call"' in page
    assert page.count('class="incomplete"') == 2  # on its day, and in the key


def test_a_long_period_is_shown_by_months(cast: Cast) -> None:
    call(cast.acme, at=datetime(2026, 2, 1, tzinfo=UTC), cost_micros=7_000)
    call(cast.acme, at=datetime(2026, 2, 28, tzinfo=UTC), cost_micros=7_000)
    page = page_of(cast.alice, **{"period": "own", "from": "2026-01-15", "to": "2026-05-10"})
    assert "Cost by month" in page
    assert page.count('class="column"') == 5
    assert 'aria-label="February 2026: $0.014, 2 answers"' in page


@pytest.mark.parametrize(
    "page", [PAGE, f"{PAGE}caches/", f"{PAGE}export/", OPS_PAGE, "/ops/caches/"]
)
@pytest.mark.parametrize(
    "query",
    [
        {"period": "own", "from": "0001-01-01", "to": "9999-12-31"},
        {"period": "own", "from": "2026-03-02", "to": "2026-03-01"},
        {"period": "own", "from": "\x00", "to": "'; --"},
        {"period": "90"},
        {"period": "x" * 5000},
    ],
)
def test_any_days_give_a_page(cast: Cast, page: str, query: dict[str, str]) -> None:
    user = cast.olga if page.startswith("/ops") else cast.alice
    assert signed_in(user).get(page, query).status_code == 200


# --- Operations ----------------------------------------------------------------------------------


def test_operations_see_names_of_tenants_and_no_name_or_text_of_theirs(cast: Cast) -> None:
    shelf, key = collection(cast.acme, "Handbook"), api_key(cast.acme, "Robot")
    own = conversation(cast.acme, cast.bob)
    call(
        cast.acme,
        user_id=cast.bob.id,
        key_id=key.id,
        collection_ids=[shelf.id],
        conversation_id=own.id,
        cost_micros=3_000_000,
    )
    call(cast.rival, cost_micros=1_000_000, hop="rerank", source="api", upstream="beta")
    page = page_of(cast.olga, OPS_PAGE)
    assert shown(page, "spent") == "$4.00"
    assert [row[:2] for row in table(page, "tenant")] == [["Acme", "$3.00"], ["Rival", "$1.00"]]
    assert [row[0] for row in table(page, "hop")] == ["Writing answers", "Reranking"]
    assert [row[0] for row in table(page, "upstream")] == ["alpha", "beta"]
    assert table(page, "user")[0][0] == f"Person {cast.bob.id}"
    for text in ("Handbook", "Robot", "bob", "Secret plans", str(own.id)):
        assert text not in page


def test_operations_are_told_which_upstream_has_no_price(cast: Cast) -> None:
    call(cast.acme, price_id=None, cost_micros=0, upstream="beta")
    call(cast.acme)
    page = page_of(cast.olga, OPS_PAGE)
    assert "<strong>beta</strong> (1 of 1 calls)" in page
    assert "can set one" in page
    assert "/admin/gateway/price/add/" not in page
    User.objects.filter(id=cast.olga.id).update(is_staff=True)
    assert 'href="/admin/gateway/price/add/?upstream=beta"' in page_of(cast.olga, OPS_PAGE)


# --- Cost of the page itself ---------------------------------------------------------------------


@pytest.mark.parametrize(("who", "page"), [("alice", PAGE), ("olga", OPS_PAGE)])
def test_more_calls_people_and_collections_take_no_more_queries(
    cast: Cast, who: str, page: str
) -> None:
    browser = signed_in(getattr(cast, who))

    def queries() -> int:
        with CaptureQueriesContext(connection) as taken:
            assert browser.get(page).status_code == 200
        return len(taken)

    counted = []
    for number in range(20):
        user = User.objects.create_user(username=f"u{number}", email=f"u{number}@example.com")
        Membership.objects.create(tenant=cast.acme, user=user)
        ours = {"collection_ids": [collection(cast.acme, f"Shelf {number}").id]}
        ours |= {"key_id": api_key(cast.acme, f"Key {number}").id, "user_id": user.id}
        own = conversation(cast.acme, cast.alice)
        call(cast.acme, cost_micros=number + 1, conversation_id=own.id, **ours)
        counted.append(queries())
    assert counted[-1] == counted[0]
