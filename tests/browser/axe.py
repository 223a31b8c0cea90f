"""axe-core in a page, and what it finds there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

_SCRIPT = Path(__file__).parent / "vendor" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# What a change of theme can change; all other rules see the same page.
OF_COLOUR = ["color-contrast", "link-in-text-block"]
_RUN = """([tags, rules]) => axe.run(document, {
    runOnly: rules.length ? { type: "rule", values: rules } : { type: "tag", values: tags },
    resultTypes: ["violations"],
})"""


@dataclass(frozen=True)
class Violation:
    """One element that breaks one rule."""

    rule: str
    target: str
    summary: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.target}: {self.summary}"


@cache
def _script() -> str:
    return _SCRIPT.read_text()


def violations(page: Page, *, rules: list[str] | None = None) -> list[Violation]:
    """What axe-core finds on the page as it stands; `rules`: only these.

    The script comes in by the debugger, past the page's own policy, which allows no evaluation.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(_script())
    found: dict[str, Any] = page.evaluate(_RUN, [TAGS, rules or []])
    return [
        Violation(each["id"], " ".join(map(str, node["target"])), _said(node))
        for each in found["violations"]
        for node in each["nodes"]
    ]


def in_both_themes(page: Page) -> list[Violation]:
    """Every rule in light, and those of colour in dark."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    found = violations(page)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    return found + violations(page, rules=OF_COLOUR)


def _said(node: dict[str, Any]) -> str:
    return " ".join(str(node["failureSummary"]).split())
