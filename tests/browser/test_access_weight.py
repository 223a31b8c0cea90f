"""What pages weigh, and what they log."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Response

from tests.browser.addresses import Opened, pages
from tests.browser.furnished import Furnished

SCRIPT_BYTES = 250_000  # uncompressed, of all scripts that a page loads by itself
HEAVIEST = 5  # are printed
# The administration is a library's own, for site staff; it is not held to the budget.
NOT_OURS = "admin"
BLOCKING = r"""() => performance.getEntriesByType("resource")
    .filter((each) => each.renderBlockingStatus === "blocking")
    .map((each) => new URL(each.name).pathname.replace(/^\/static\/\w{12}\//, ""))"""


@dataclass
class Loading:
    """What a page fetched, and what it had to say."""

    page: Page
    scripts: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("response", self._on_response)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.said.append(f"thrown: {error}"))

    def _on_response(self, response: Response) -> None:
        if response.request.resource_type == "script" and response.ok:
            self.scripts[response.url] = len(response.body())

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.said.append(f"{message.type}: {message.text}")

    @property
    def bytes(self) -> int:
        return sum(self.scripts.values())


@pytest.fixture(scope="module")
def opened(furnished: Furnished) -> list[Opened]:
    return [each for each in pages(furnished) if each.room != NOT_OURS]


@pytest.fixture(scope="module")
def loadings(opened: list[Opened], profiles: dict[str, BrowserContext]) -> dict[str, Loading]:
    """Every page, once."""
    found = {}
    for each in opened:
        loading = Loading(profiles[each.who].new_page())
        loading.page.goto(
            f"/{each.path}", wait_until="networkidle" if "chat" in each.path else "load"
        )
        found[f"/{each.path} ({each.who or 'stranger'})"] = loading
        loading.page.close()
    return found


def test_no_page_loads_more_script_than_it_may(loadings: dict[str, Loading]) -> None:
    by_weight = sorted(loadings.items(), key=lambda each: -each[1].bytes)
    for name, loading in by_weight[:HEAVIEST]:
        print(f"{loading.bytes:>7} bytes in {len(loading.scripts):>2} scripts: {name}")  # noqa: T201
    name, heaviest = by_weight[0]
    told = "\n".join(f"{size:>7} {url}" for url, size in sorted(heaviest.scripts.items()))
    assert heaviest.bytes <= SCRIPT_BYTES, f"{name} loads {heaviest.bytes} bytes:\n{told}"


def test_scripts_are_counted(loadings: dict[str, Loading]) -> None:
    chat = next(loading for name, loading in loadings.items() if "/chat/ (" in name)
    assert chat.bytes > 50_000
    assert any(url.endswith("htmx.min.js") for url in chat.scripts)


def test_no_page_logs_an_error_or_breaks_its_own_policy(loadings: dict[str, Loading]) -> None:
    said = [f"{name}: {words}" for name, loading in loadings.items() for words in loading.said]
    assert not said, "\n" + "\n".join(said)


def test_what_a_policy_forbids_is_heard(profiles: dict[str, BrowserContext]) -> None:
    loading = Loading(profiles[""].new_page())
    loading.page.goto("/accounts/login/")
    loading.page.evaluate(
        "document.head.append(Object.assign(document.createElement('style'), "
        "{ textContent: 'body { color: red }' }))"
    )
    loading.page.wait_for_timeout(100)
    assert any("Content Security Policy" in words for words in loading.said)
    loading.page.close()


def test_only_style_and_the_theme_hold_up_the_first_paint(
    furnished: Furnished, profiles: dict[str, BrowserContext]
) -> None:
    page = profiles["manager"].new_page()
    page.goto(f"/t/acme/chat/{furnished.world['conversation_id']}/")
    waited_for = page.evaluate(BLOCKING)
    page.close()
    assert [name for name in waited_for if name.endswith(".js")] == ["js/theme.js"]
    assert {name for name in waited_for if not name.endswith(".js")} == {
        *("css/site.css", "css/chat.css", "css/reading.css", "css/conversations.css"),
    }
