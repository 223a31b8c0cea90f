"""Where the keyboard is on a page, and whether a person can see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

# The focused element: what it is, how its ring looks on what is behind it, whether it is covered.
_FOCUSED = r"""() => {
    const element = document.activeElement;
    if (!element || element === document.body) return null;
    const parent = (each) => (each === document.body ? null : each.parentElement);
    const style = (each) => getComputedStyle(each);

    const hasRing = (each) =>
        style(each).outlineStyle !== "none" && parseFloat(style(each).outlineWidth) >= 2;
    let ringed = [...(element.labels ?? [])].find(hasRing) ?? element;
    while (ringed && !hasRing(ringed)) ringed = parent(ringed);
    // In a drawing, a ring may be drawn.
    const drawn = [...element.querySelectorAll("rect")].map(style).find(
        ({ stroke, strokeWidth }) => stroke !== "none" && parseFloat(strokeWidth) >= 2);

    const isClear = (each) => /^(transparent|rgba\(.*, 0\))$/.test(style(each).backgroundColor);
    let ground = parent(ringed ?? element);
    while (ground && ground !== document.body && isClear(ground)) ground = parent(ground);

    // Where the ring is around something else, as with a hidden field, that is what is seen.
    const box = (ringed ?? element).getBoundingClientRect();
    const middle = [box.left + box.width / 2, box.top + box.height / 2];
    const corners = [box.left + 2, box.right - 2].flatMap(
        (x) => [box.top + 2, box.bottom - 2].map((y) => [x, y]));
    const isHit = ([x, y]) => {
        const met = document.elementFromPoint(x, y);
        return met && (ringed ?? element).contains(met);
    };
    return {
        name: [element.tagName.toLowerCase(), element.id && `#${element.id}`,
               ...[...element.classList].map((each) => `.${each}`)].join(""),
        text: (element.getAttribute("aria-label") || element.textContent).trim().slice(0, 40),
        ring: ringed ? style(ringed).outlineColor : (drawn?.stroke ?? ""),
        ground: style(ground ?? document.body).backgroundColor,
        seen: box.width > 0 && [middle, ...corners].some(isHit),
    };
}"""
_TO_THE_TOP = """() => {
    document.body.tabIndex = -1;
    document.body.focus();
    document.body.removeAttribute("tabindex");
    window.walked = new Set();
}"""
_MARK = """() => {
    const element = document.activeElement;
    const known = window.walked.has(element);
    window.walked.add(element);
    return known;
}"""


@dataclass(frozen=True)
class Stop:
    """One stop of the Tab key."""

    name: str
    text: str
    ring: str  # the colour of the ring around it; "": there is none
    ground: str  # the colour behind the ring
    seen: bool  # not covered by anything

    def __str__(self) -> str:
        return f"{self.name} ({self.text})"


def focused(page: Page) -> Stop | None:
    """None where the focus is on the page as a whole."""
    found: dict[str, Any] | None = page.evaluate(_FOCUSED)
    return Stop(**found) if found else None


def to_the_top(page: Page) -> None:
    """The next Tab is the first of the page, wherever the page itself has put the focus."""
    page.evaluate(_TO_THE_TOP)


def walk(page: Page, *, most: int = 250) -> list[Stop]:
    """Every stop from the top of the page until the focus leaves it or comes around."""
    to_the_top(page)
    stops: list[Stop] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        stop = focused(page)
        if stop is None or page.evaluate(_MARK):
            return stops
        stops.append(stop)
    raise AssertionError(f"the focus does not come out of the page: {stops[-3:]}")


def contrast(one: str, other: str) -> float:
    """WCAG's contrast of two `rgb(…)` colours."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    channels = [float(each) / 255 for each in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
