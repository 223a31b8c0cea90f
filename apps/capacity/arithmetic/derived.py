"""A figure with how it came about: pages print the formula and the inputs of every number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Number = int | float | Fraction

_DECIMAL = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"))  # powers of ten, as makers print them


@dataclass(frozen=True, slots=True)
class Input:
    """What went into a figure: its name, its value in words, and where that is from."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Derived:
    """A computed figure. `formula` is in words and, after the equals sign, in numbers.

    `bound` "at most" or "at least" marks a limit that no real system passes; "" an exact figure
    or an expectation.
    """

    value: float
    unit: str
    formula: str
    inputs: tuple[Input, ...] = ()
    note: str = ""
    bound: Literal["", "at most", "at least"] = ""

    @property
    def text(self) -> str:
        """The figure as a page shows it: "at most 208.6 tokens/s", "10.49 GB"."""
        return f"{self.bound} {quantity(self.value, self.unit)}".strip()


def given(name: str, value: Number | str, unit: str = "", note: str = "") -> Input:
    """An input of a formula, written as a page shows it."""
    return Input(name, value if isinstance(value, str) else quantity(value, unit), note)


def figure(value: Number) -> str:
    """Whole numbers with their thousands, others with four digits: 327,680; 208.6; 0.0125."""
    if isinstance(value, Fraction):
        value = value.numerator if value.denominator == 1 else float(value)
    if value < 0:
        return f"−{figure(-value)}"
    if isinstance(value, int) or (math.isfinite(value) and value == int(value)):
        return f"{int(value):,}"
    if not math.isfinite(value) or value < 0.001:
        return f"{value:.4g}"
    decimals = max(0, 3 - math.floor(math.log10(value)))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def quantity(value: Number, unit: str) -> str:
    """A figure with its unit; bytes from a million on in MB, GB or TB, powers of ten."""
    if unit == "bytes":
        for size, name in _DECIMAL:
            if abs(float(value)) >= size:
                return f"{figure(float(value) / size)} {name}"
    return f"{figure(value)} {unit}".rstrip()
