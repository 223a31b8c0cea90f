"""What a person does on the pages, in the words of the tests."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path

from playwright.sync_api import ConsoleMessage, Dialog, Locator, Page, expect

from tests.flows.library import Library
from tests.running_stack import Stack

ANSWER_MS = 45_000


@dataclass
class Visitor:
    """One browser profile with one page, and what went wrong on it."""

    page: Page
    stack: Stack
    expected: tuple[str, ...] = ()  # parts of messages that a test provokes
    _said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self._said.append(f"thrown: {error}"))
        self.page.on("dialog", self._on_dialog)

    def problems(self) -> list[str]:
        return [said for said in self._said if not any(words in said for words in self.expected)]

    def bring_session(self, who: str) -> None:
        """Be signed in, without the form: it is slow, and its tries are limited."""
        cookies = SimpleCookie(self.stack.cookie(who))
        self.page.context.add_cookies(
            [
                {"name": name, "value": each.value, "url": self.stack.url}
                for name, each in cookies.items()
            ]
        )

    def sign_in(self, email: str, password: str) -> None:
        self.page.goto("/")
        self.page.locator("[name=login]").fill(email)
        self.page.locator("[name=password]").fill(password)
        self.page.get_by_role("button", name="Sign in").click()

    def shoot(self, name: str) -> None:
        """A picture of the page for people, where RAGSITE_SCREENSHOTS names a folder."""
        if folder := os.environ.get("RAGSITE_SCREENSHOTS"):
            self.page.screenshot(path=Path(folder) / f"{name}.png")

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._said.append(f"console: {message.text} ({message.location.get('url')})")

    def _on_dialog(self, dialog: Dialog) -> None:
        # What asks before a page is left is not a script's doing.
        if dialog.type != "beforeunload":
            self._said.append(f"dialog: {dialog.message}")
        dialog.accept()


class Chat:
    """The chat page."""

    def __init__(self, page: Page, library: Library) -> None:
        self.page = page
        self.answers = page.locator("#thread .answer")
        self.composer = page.locator("#question")
        self.sources = page.locator("#sources")
        page.goto(f"{library.stack.tenant_url}/chat/?collection={library.id}")
        self.wait_for_connection()

    @property
    def last(self) -> Locator:
        """The newest answer."""
        return self.answers.last

    @property
    def text(self) -> Locator:
        return self.last.locator(".answer-body")

    def wait_for_connection(self) -> None:
        expect(self.page.locator("#chat")).to_have_attribute("data-connection", "open")

    def ask(self, question: str) -> None:
        """Send by Enter; does not wait."""
        before = self.answers.count()
        self.composer.fill(question)
        self.composer.press("Enter")
        expect(self.answers).to_have_count(before + 1)

    def wait_for(self, state: str) -> None:
        """The newest answer's state: complete, stopped, interrupted or failed."""
        expect(self.last).to_have_attribute("data-state", state, timeout=ANSWER_MS)

    def ask_and_wait(self, question: str) -> None:
        self.ask(question)
        self.wait_for("complete")


class CollectionPage:
    """The page of one collection."""

    def __init__(self, page: Page, library: Library) -> None:
        self.page = page
        page.goto(f"{library.stack.tenant_url}/documents/{library.id}/")

    def row(self, name: str) -> Locator:
        return self.page.locator("#documents tbody tr").filter(has_text=name)

    def wait_until(self, name: str, state: str) -> None:
        expect(self.row(name).locator(".document-state")).to_contain_text(state, timeout=60_000)

    def drop(self, name: str, content: bytes, kind: str) -> None:
        """Drag a file onto the page and let go."""
        carried = self.page.evaluate_handle(
            """([name, bytes, type]) => {
                const carried = new DataTransfer();
                carried.items.add(new File([new Uint8Array(bytes)], name, { type }));
                return carried;
            }""",
            [name, list(content), kind],
        )
        for event in ("dragenter", "dragover", "drop"):
            self.page.dispatch_event("#upload", event, {"dataTransfer": carried})
