"""Charts as SVG files to be read alone: light ground, words, units, no script, no styles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

WIDTH = 760.0
LEFT, RIGHT = 84.0, 24.0
TEXT, QUIET, RULE = "#1f2328", "#57606a", "#d0d7de"
COLOURS = ("#0550ae", "#b35900", "#1a7f37", "#8250df")  # 4.5:1 and more on white
_LINE_CHARS = 104  # of a paragraph at this width and size


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high` along pixels from `begin` to `end`."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(self.begin + (self.end - self.begin) * min(max(share, 0.0), 1.0), 2)

    def ticks(self) -> list[float]:
        """Four to nine round values between the ends."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        power = 10.0 ** len(str(int(span))) / 10 if span >= 1 else 0.1
        step = next(
            each
            for each in (power / 10, power / 5, power / 2, power, power * 2, power * 5)
            if span / each <= 9
        )
        first = -(-self.low // step) * step
        return [first + step * n for n in range(int((self.high - first) / step + 1e-9) + 1)]


@dataclass
class Drawing:
    """Shapes, from the top down; `y` is where the next thing goes."""

    title: str
    summary: str
    y: float = 0.0
    _shapes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.y = 30.0
        self.text(LEFT - 60, self.y, self.title, size=17, bold=True)
        for line in _wrapped(self.summary):
            self.y += 19
            self.text(LEFT - 60, self.y, line, colour=QUIET)
        self.y += 14

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        colour: str = TEXT,
        size: int = 13,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self._shapes.append(
            f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="{size}" '
            f'text-anchor="{anchor}"{weight}>{escape(words)}</text>'
        )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1
    ) -> None:
        self._shapes.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
            f'stroke-width="{width:g}"/>'
        )

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{max(width, 0):g}" height="{max(height, 0):g}" '
            f'fill="{colour}"/>'
        )

    def mark(self, x: float, y: float, kind: int) -> None:
        """A sign of its own form for each kind: colour alone tells nothing apart."""
        colour, r = COLOURS[kind % len(COLOURS)], 3.6
        shape = (
            f'<circle cx="{x:g}" cy="{y:g}" r="{r:g}" fill="{colour}"/>',
            f'<path d="M{x - r:g} {y - r:g}l{2 * r:g} {2 * r:g}m0 {-2 * r:g}l{-2 * r:g} {2 * r:g}" '
            f'stroke="{colour}" stroke-width="2" fill="none"/>',
            f'<rect x="{x - r:g}" y="{y - r:g}" width="{2 * r:g}" height="{2 * r:g}" '
            f'fill="{colour}"/>',
            f'<path d="M{x:g} {y - r - 1:g}l{r + 1:g} {2 * r:g}h{-2 * r - 2:g}z" fill="{colour}"/>',
        )
        self._shapes.append(shape[kind % len(shape)])

    def key(self, names: Sequence[str]) -> None:
        """What each mark stands for, in a row."""
        x = LEFT - 56
        self.y += 12
        for kind, name in enumerate(names):
            self.mark(x, self.y - 4, kind)
            self.text(x + 12, self.y, name)
            x += 34 + 7.0 * len(name)
        self.y += 12

    def panel(
        self, height: float, x: tuple[float, float], y: tuple[float, float]
    ) -> tuple[Scale, Scale]:
        """Room with ruled values of y; the scales of both axes."""
        top = self.y + 8
        across = Scale(*x, LEFT, WIDTH - RIGHT)
        down = Scale(*y, top + height, top)
        for value in down.ticks():
            self.line(LEFT, down(value), WIDTH - RIGHT, down(value), RULE)
            self.text(LEFT - 8, down(value) + 4, f"{value:,g}", colour=QUIET, anchor="end")
        self.y = top + height
        return across, down

    def bar(self, name: str, value: float, most: float, kind: int, *, words: str) -> None:
        """A named bar as long as `value` of `most`, with `words` under its name."""
        self.y += 18
        self.text(24, self.y, name, bold=True)
        self.text(WIDTH - RIGHT, self.y, words, colour=QUIET, anchor="end")
        self.y += 8
        width = (WIDTH - RIGHT - 24) * min(max(value / most, 0.0), 1.0)
        self.box(24, self.y, max(width, 1.0), 20, COLOURS[kind % len(COLOURS)])
        self.y += 32

    def below(self, across: Scale, words: str) -> None:
        """Values of x under the last panel, and what they are."""
        for value in across.ticks():
            self.text(across(value), self.y + 18, f"{value:,g}", colour=QUIET, anchor="middle")
        self.y += 36
        self.text((LEFT + WIDTH - RIGHT) / 2, self.y, words, colour=QUIET, anchor="middle")
        self.y += 10

    def svg(self) -> str:
        height = self.y + 16
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" '
            f'width="{WIDTH:g}" height="{height:g}" role="img" font-family="system-ui, sans-serif">'
            f"<title>{escape(self.title)}</title><desc>{escape(self.summary)}</desc>"
            f'<rect width="100%" height="100%" fill="#ffffff"/>'
        )
        return head + "\n".join(self._shapes) + "</svg>\n"


def _wrapped(words: str) -> list[str]:
    lines: list[str] = []
    for word in words.split():
        if lines and len(lines[-1]) + len(word) < _LINE_CHARS:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
