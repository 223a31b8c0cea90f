"""The cost and cache pages, held against the ledger itself: every figure that they show."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from apps.tenants.money import format_money
from tests.browser.conftest import NewVisitor
from tests.browser.pages import Chat
from tests.browser.test_looks import PHONE, check_width
from tests.flows.library import Library
from tests.running_stack import Stack, a_stack, eventually

DAYS = 7
QUESTION = "How deep is the well at Sallow?"
# Through the service that books calls: priced ones, one without a price, some that a cache spared.
BOOK = """
import uuid
from datetime import UTC, datetime
from apps.gateway.ledger.booking import book
from apps.gateway.ledger.prices import PriceRule
from apps.gateway.types import CacheNote, CacheResult, Call, Caller, Source, Usage
from apps.tenants.models import Tenant, User
from django.db import transaction

tenant = Tenant.objects.get(slug="demo")
user = User.objects.get(email="member@demo.example")
price = PriceRule(1, "paid", "", datetime(2026, 1, 1, tzinfo=UTC), 150_000, 75_000, 600_000)
conversation = uuid.uuid4()
caller = Caller(tenant.id, tenant.time_zone, Source.CHAT, user.id, None, conversation)
calls = [
    (Call("generate", "paid", "paid", usage=Usage(4000 + n, 100, 300), total_ms=900,
          cache=CacheNote(CacheResult.MISS)), price)
    for n in range(5)
]
calls += [
    (Call("generate", "paid", cache=CacheNote(CacheResult.HIT, "", 800, 850.0)), None),
    (Call("generate", "paid", cache=CacheNote(CacheResult.SHARED, "", 800, 10.0)), None),
    (Call("generate", "free", "unpriced", usage=Usage(50, 0, 7, estimated=True),
          cache=CacheNote(CacheResult.BYPASSED, "history")), None),
]
with transaction.atomic():
    for call, price_then in calls:
        book(caller, uuid.uuid4(), call, price_then)
"""
SUMS = """
SELECT count(*), count(*) FILTER (WHERE hop = 'generate'), sum(cost_micros)::bigint,
    count(*) FILTER (WHERE upstream <> '' AND price_id IS NULL),
    count(*) FILTER (WHERE tokens_estimated),
    sum(prompt_tokens)::bigint, sum(output_tokens)::bigint,
    count(DISTINCT conversation_id),
    coalesce(sum(cost_micros) FILTER (WHERE conversation_id IS NOT NULL), 0)::bigint
FROM gateway_ledgerentry JOIN tenants_tenant AS tenant ON tenant.id = tenant_id
WHERE tenant.slug = 'demo' AND at >= %s AND at < %s
"""
CACHE = """
SELECT cache, count(*), sum(saved_micros)::bigint
FROM gateway_ledgerentry JOIN tenants_tenant AS tenant ON tenant.id = tenant_id
WHERE tenant.slug = 'demo' AND hop = 'generate' AND at >= %s AND at < %s GROUP BY cache
"""
BY = """
SELECT {column}, sum(cost_micros)::bigint, count(*),
    count(*) FILTER (WHERE upstream <> '' AND price_id IS NULL)
FROM gateway_ledgerentry JOIN tenants_tenant AS tenant ON tenant.id = tenant_id
WHERE tenant.slug = 'demo' AND at >= %s AND at < %s GROUP BY 1
"""


@dataclass(frozen=True)
class Ledger:
    """What the ledger adds up to, read past the site."""

    stack: Stack

    def rows(self, query: str) -> list[tuple[object, ...]]:
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        first = today - timedelta(days=DAYS - 1)
        return self.stack.rows(query, first, today + timedelta(days=1))

    def by(self, column: str) -> set[tuple[str, str, str]]:
        """Name, cost in words, calls, of each line of a table."""
        rows = self.rows(BY.format(column=column))
        return {(str(k), cost(int(m), int(u)), f"{n:,}") for k, m, n, u in rows}  # type: ignore[call-overload]


def cost(micros: int, unpriced: int) -> str:
    if not unpriced:
        return format_money(micros)
    return f"at least {format_money(micros)}" if micros else "not known"


def average(micros: int, count: int, unpriced: int) -> str:
    if not unpriced:
        return format_money(micros / count)
    return f"at least {format_money(micros / count)}" if micros else "not known"


def while_nothing_is_booked(ledger: Ledger, look: Callable[[], None]) -> None:
    """Look when the ledger is the same before and after; work of other tests may still end."""
    deadline = time.monotonic() + 60
    while True:
        before = ledger.rows(SUMS)
        try:
            look()
        except AssertionError:
            if ledger.rows(SUMS) == before or time.monotonic() > deadline:
                raise
        else:
            return


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One with its caches, unlike the one that other tests share."""
    with a_stack() as running:
        yield running


@pytest.fixture
def ledger(stack: Stack) -> Ledger:
    stack.manage("shell", "--verbosity=0", "--command", BOOK)
    return Ledger(stack)


def table(page: Page, name: str) -> set[tuple[str, str, str]]:
    """Name, cost and calls of each line, without what is said under the cost."""
    lines = page.locator(f"#table-{name} tbody tr").all()
    found = set()
    for line in lines:
        cells = [cell.inner_text().split("\n")[0].strip() for cell in line.locator("th, td").all()]
        found.add((cells[0], cells[1], cells[4]))
    return found


def test_the_cost_page_shows_what_the_ledger_adds_up_to(
    visit: NewVisitor, ledger: Ledger, tmp_path: Path
) -> None:
    visitor = visit("manager")
    page = visitor.page
    page.goto(f"{ledger.stack.tenant_url}/chat/")
    page.get_by_role("link", name="Costs").click()

    def look() -> None:
        page.get_by_role("link", name=f"{DAYS} days").click()
        compare_figures(page, ledger)
        compare_columns(page)
        compare_file(page, ledger, tmp_path)

    while_nothing_is_booked(ledger, look)
    visitor.shoot("costs")
    look_at_a_column(page)


def compare_figures(page: Page, ledger: Ledger) -> None:
    (sums,) = ledger.rows(SUMS)
    calls, answers, micros, unpriced, estimated, read, written, talks, talked = map(int, sums)  # type: ignore[call-overload]
    assert page.locator("#spent").inner_text() == cost(micros, unpriced)
    assert page.locator("#per-answer").inner_text() == average(micros, answers, unpriced)
    assert page.locator("#per-conversation").inner_text() == average(talked, talks, unpriced)
    assert page.locator("#answers").inner_text() == f"{answers:,}"
    assert page.locator("#tokens").inner_text() == f"{read + written:,}"
    figures = page.locator(".figures").inner_text()
    for words in (
        *(f"{calls:,} calls to models", f"over {answers:,} answers"),
        *(f"of {talks:,} conversation", f"{read:,} read", f"{written:,} written"),
    ):
        assert words in figures
    assert f"The cost of {unpriced:,} of {calls:,} calls" in page.locator("#remarks").inner_text()
    assert f"The tokens of {estimated:,} of {calls:,}" in page.locator("#remarks").inner_text()
    assert table(page, "model") == ledger.by("model")
    people = "(SELECT email FROM tenants_user WHERE id = user_id)"
    named = ledger.by(f"coalesce({people}, 'No person')")
    assert table(page, "user") == named


def compare_columns(page: Page) -> None:
    """A column says what the line of its day says."""
    columns = page.locator(".column").all()
    assert len(columns) == DAYS
    page.get_by_text("The same as a table").click()
    for column in columns:
        words = column.get_attribute("aria-label") or ""
        line = page.locator(column.get_attribute("href") or "").inner_text().split("\t")
        day, said = words.split(": ", 1)
        assert line[0].strip() == day
        if said != "no call":
            assert line[1].split("\n")[0].strip() in said
            assert f"{line[2].strip()} answer" in said
    page.get_by_text("The same as a table").click()


def compare_file(page: Page, ledger: Ledger, folder: Path) -> None:
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile("^CSV")).click()
    name = download.value.suggested_filename
    assert re.fullmatch(r"costs_demo_\d{4}-\d\d-\d\d_\d{4}-\d\d-\d\d\.csv", name)
    download.value.save_as(folder / name)
    content = (folder / name).read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    lines = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    (sums,) = ledger.rows(SUMS)
    calls, answers, micros, unpriced, *_ = map(int, sums)  # type: ignore[call-overload]
    known = [Decimal(line["cost (USD)"]) for line in lines if line["cost (USD)"]]
    assert len(lines) == calls
    assert len(lines) - len(known) == unpriced
    assert sum(known) * 10**6 == micros
    assert sum(line["hop"] == "generate" for line in lines) == answers


def look_at_a_column(page: Page) -> None:
    """By keyboard as by mouse: its figure shows itself, and Enter leads to its line."""
    last = page.locator(".column").last
    expect(last.locator(".says")).to_be_hidden()
    page.get_by_text("The same as a table").focus()
    page.keyboard.press("Shift+Tab")
    expect(last.locator(".says")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(last.get_attribute("href") or "")).to_be_visible()
    first = page.locator(".column").first
    first.locator(".catch").hover()
    expect(first.locator(".says")).to_be_visible()


def test_the_cache_page_shows_what_the_ledger_adds_up_to(visit: NewVisitor, ledger: Ledger) -> None:
    visitor = visit("manager")
    page = visitor.page
    page.goto(f"{ledger.stack.tenant_url}/costs/")
    page.get_by_role("link", name="Caches", exact=True).click()

    def look() -> None:
        page.get_by_role("link", name=f"{DAYS} days").click()
        counts = {str(cache): int(n) for cache, n, _ in ledger.rows(CACHE)}  # type: ignore[call-overload]
        saved = sum(int(each[2]) for each in ledger.rows(CACHE))  # type: ignore[call-overload]
        found = sum(counts.get(each, 0) for each in ("hit", "semantic", "shared"))
        eligible = found + counts.get("miss", 0) + counts.get("error", 0)
        card = page.locator("#card-response")
        assert card.locator(".ratio").inner_text() == f"{found:,} of {eligible:,} eligible"
        assert f"{counts['bypassed']:,} more" in card.locator(".bypassed").inner_text()
        assert f"{counts['hit']:,} exactly" in card.inner_text()
        assert format_money(saved) in card.inner_text()
        today = page.locator(".column").last.get_attribute("aria-label") or ""
        assert re.search(r": [\d,]+ of [\d,]+ eligible found$", today)

    while_nothing_is_booked(ledger, look)
    visitor.shoot("caches")


def test_a_question_that_is_asked_twice_is_paid_once(
    visit: NewVisitor, ledger: Ledger, library: Library
) -> None:
    """From the chat to the page: the second answer is in the ledger as one that cost nothing."""
    library.add("well.md", "# Well\n\nThe well at Sallow is forty ells deep.\n")
    page = visit("corpus-admin").page
    for _ in range(2):
        Chat(page, library).ask_and_wait(QUESTION)
    query = """
        SELECT cache, upstream <> '', prompt_tokens + output_tokens > 0 FROM gateway_ledgerentry
        WHERE hop = 'generate' AND collection_ids = ARRAY[%s::uuid] ORDER BY id
    """
    stack = ledger.stack
    eventually(
        lambda: len(stack.rows(query, library.id)) == 2, within_s=20, what="both to be booked"
    )
    first, second = stack.rows(query, library.id)
    assert first == ("miss", True, True)
    assert second == ("hit", False, False)
    manager = visit("manager").page
    manager.goto(f"{stack.tenant_url}/costs/")
    expect(
        manager.locator("#table-collection tbody th").filter(has_text=library.name)
    ).to_have_count(1)


def test_operations_see_all_and_a_phone_shows_all(visit: NewVisitor, ledger: Ledger) -> None:
    desk = visit("ops").page
    for name in ("Costs", "Caches"):
        desk.goto(f"{ledger.stack.url}/ops/ingestion/")
        desk.get_by_label("Operations").get_by_role("link", name=name).click()
        expect(desk.get_by_role("heading", name=name, level=1)).to_be_visible()
    desk.goto(f"{ledger.stack.url}/ops/costs/")
    expect(desk.locator("#table-upstream")).to_contain_text("paid")
    expect(desk.locator("main")).not_to_contain_text("member@demo.example")
    for who, path in (("manager", "t/demo/costs/"), ("manager", "t/demo/costs/caches/")):
        visitor = visit(who, width=PHONE)
        visitor.page.goto(f"{ledger.stack.url}/{path}")
        check_width(visitor.page)
        visitor.shoot(f"phone-{path.strip('/').split('/')[-1]}")
