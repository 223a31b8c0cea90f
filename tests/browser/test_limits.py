"""A manager sets a limit and sees it used; an upload that finds no room says why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NewVisitor
from tests.browser.pages import CollectionPage, Visitor
from tests.flows.library import Library


class LimitsPage:
    """The page of a tenant's limits."""

    def __init__(self, page: Page, library: Library) -> None:
        self.page = page
        self.url = f"{library.stack.tenant_url}/limits/"
        page.goto(self.url)

    def own(self, measure: str) -> Locator:
        return self.page.locator("#own tbody tr").filter(
            has=self.page.get_by_text(measure, exact=True)
        )

    def set(self, measure: str, amount: str, whom: str = "The organisation") -> None:
        form = self.page.locator("#set form")
        form.locator("[name=whom]").select_option(label=whom)
        form.locator("[name=measure]").select_option(label=measure)
        form.locator("[name=amount]").fill(amount)
        form.get_by_role("button", name="Set the limit").click()

    def remove(self, measure: str) -> None:
        self.own(measure).get_by_role("link", name="Remove").click()
        self.page.get_by_role("button", name="Remove").click()


@pytest.fixture
def manager(visit: NewVisitor, library: Library) -> Iterator[Visitor]:
    """The others' tests upload to the same tenant: no limit is left to them."""
    yield visit("manager")
    library.stack.manage(
        "shell", "-c", "from apps.tenants.models import Limit; Limit.objects.all().delete()"
    )


def test_a_limit_is_set_seen_used_and_holds_uploads_back(
    manager: Visitor, visit: NewVisitor, library: Library
) -> None:
    library.add("moor.md", "# Moor\n\nThe moor is crossed on planks of larch.\n")
    kept = library.stack.rows(
        "SELECT documents FROM documents_documentuse u JOIN tenants_tenant t ON t.id = u.tenant_id "
        "WHERE t.slug = 'demo' AND u.subject = 'tenant'"
    )[0][0]
    limits = LimitsPage(manager.page, library)
    limits.set("Documents", "apples")
    expect(manager.page.locator("#set .errorlist")).to_contain_text("Write a whole number")
    limits.set("Documents", f"{kept + 1:,}")
    expect(manager.page.locator(".messages")).to_contain_text("the limit is set")
    expect(limits.own("Documents")).to_contain_text(f"{kept} of {kept + 1} documents")
    manager.shoot("limits")

    admin = visit("corpus-admin")
    collection = CollectionPage(admin.page, library)
    collection.drop("larch.md", b"# Larch\n\nLarch does not rot.\n", "text/markdown")
    expect(collection.row("larch.md")).to_be_visible()
    collection.drop("pine.md", b"# Pine\n\nPine does.\n", "text/markdown")
    expect(admin.page.locator("#uploads")).to_contain_text("and there is no room for another")
    admin.shoot("limits-no-room")
    expect(collection.row("pine.md")).to_have_count(0)

    manager.page.goto(limits.url)
    expect(limits.own("Documents")).to_contain_text("Used up")
    manager.shoot("limits-used-up")
    limits.remove("Documents")
    expect(limits.own("Documents")).not_to_contain_text("Used up")
    collection.drop("pine.md", b"# Pine\n\nPine does.\n", "text/markdown")
    expect(collection.row("pine.md")).to_be_visible()


def test_nothing_at_all_is_confirmed_first(manager: Visitor, library: Library) -> None:
    limits = LimitsPage(manager.page, library)
    limits.set("Answers at the same time", "0", "Each API key")
    expect(manager.page.get_by_role("heading", name="Allow nothing?")).to_be_visible()
    manager.shoot("limits-nothing")
    manager.page.get_by_role("link", name="Cancel").click()
    expect(manager.page.get_by_role("heading", name="Limits", exact=True)).to_be_visible()
    expect(manager.page.locator("main")).to_contain_text("No key is limited")


def test_where_alerts_go_is_checked_and_kept(manager: Visitor, library: Library) -> None:
    limits = LimitsPage(manager.page, library)
    form = manager.page.locator("#alerts form").first
    form.locator("[name=webhook_url]").fill("https://127.0.0.1/hook")
    form.get_by_role("button", name="Save").click()
    expect(manager.page.locator("#alerts .errorlist")).to_contain_text("not on the public internet")
    manager.page.goto(limits.url)
    form.locator("[name=emails]").fill("money@demo.example")
    form.get_by_role("button", name="Save").click()
    expect(manager.page.locator("#alerts")).to_contain_text("To 2 addresses")
    manager.page.get_by_role("button", name="Send a test").click()
    expect(manager.page.locator(".messages")).to_contain_text("The test was mailed")
    manager.shoot("limits-alerts")


def test_the_pages_fit_a_phone(visit: NewVisitor, library: Library) -> None:
    for who, url in (("manager", f"{library.stack.tenant_url}/limits/"), ("ops", "/ops/limits/")):
        visitor = visit(who, width=390)
        visitor.page.goto(url)
        wide = visitor.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide == 0, url
        visitor.shoot(f"limits-phone-{who}")
