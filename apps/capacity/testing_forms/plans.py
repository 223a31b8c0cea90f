"""The part of the form that says how much: loads, promises and bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from pydantic import ValidationError as PartInvalid

from apps.capacity.load.types import Bounds, Promises
from apps.capacity.loadtests.plan import MOST_SECONDS, Plan
from apps.capacity.showing.words import figure

LOADS_MAX_CHARS = 400
# Expected of a point. Of ten, none at all comes once in 22,000 points (e^-10), of five once in 150.
LEAST_REQUESTS = 10
_LOADS_MOST = 50
_LOAD_HIGHEST = 100_000.0
_ARRIVALS = (
    ("poisson", "Requests a second (Poisson)"),
    ("constant", "Requests a second, evenly"),
    ("closed", "Requests at a time"),
    ("trace", "The trace’s own times"),
)
_MODES = (
    ("sweep+knee", "Each load, then the knee"),
    ("sweep", "Each load only"),
    ("knee", "The knee only"),
)


class PlanForm(forms.Form):
    """Loads, promises and bounds."""

    mode = forms.ChoiceField(label="What is done", choices=_MODES, initial="sweep+knee")
    arrivals = forms.ChoiceField(label="A load is", choices=_ARRIVALS, initial="poisson")
    loads = forms.CharField(
        label="Loads",
        max_length=LOADS_MAX_CHARS,
        help_text="From low to high, with commas between them.",
    )
    repeats = forms.IntegerField(
        label="Repeats of each",
        min_value=1,
        max_value=20,
        initial=3,
        help_text="Fewer than three give no useful interval.",
    )
    ttft_ms = forms.FloatField(
        label="First token within, ms", min_value=0.001, max_value=1e7, required=False
    )
    tpot_ms = forms.FloatField(
        label="Each token after it within, ms",
        min_value=0.001,
        max_value=1e7,
        required=False,
        help_text="The average of an answer.",
    )
    e2e_ms = forms.FloatField(
        label="Whole answer within, ms", min_value=0.001, max_value=1e8, required=False
    )
    share_percent = forms.FloatField(
        label="Kept for at least, % of requests", min_value=1, max_value=100, initial=95
    )
    duration_s = forms.FloatField(
        label="A point lasts, seconds", min_value=1, max_value=3600, initial=30
    )
    requests = forms.IntegerField(
        label="Requests a point, at most", min_value=1, max_value=100_000, initial=400
    )
    most_minutes = forms.FloatField(
        label="The whole test, minutes at most",
        min_value=0.1,
        max_value=MOST_SECONDS / 60,
        initial=20,
    )
    most_requests = forms.IntegerField(
        label="The whole test, requests at most", min_value=1, max_value=1_000_000, initial=5000
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            if isinstance(field, forms.FloatField):
                field.widget.attrs["step"] = "any"

    def clean_loads(self) -> tuple[float, ...]:
        words = self.cleaned_data["loads"].replace(",", " ").replace(";", " ").split()
        if not words:
            raise ValidationError("Give at least one load.")
        if len(words) > _LOADS_MOST:
            raise ValidationError(f"At most {_LOADS_MOST} loads.")
        return tuple(sorted({_load(word) for word in words}))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            self._check_loads(cleaned)
        if not self.errors:
            self._make_plan(cleaned)
        return cleaned

    def _check_loads(self, cleaned: Mapping[str, Any]) -> None:
        loads, mode = cleaned["loads"], cleaned["mode"]
        promised = any(cleaned[name] for name in ("ttft_ms", "tpot_ms", "e2e_ms"))
        if cleaned["arrivals"] == "closed" and any(load % 1 for load in loads):
            self.add_error("loads", "Requests at a time are whole numbers.")
        elif mode == "knee" and len(loads) < 2:
            self.add_error("loads", "A search needs two loads: the lowest and the highest.")
        elif cleaned["arrivals"] in ("poisson", "constant"):
            self._check_requests(min(loads), cleaned["duration_s"])
        if "knee" in mode and not promised:
            self.add_error(
                "ttft_ms", "The knee is the highest load that keeps a promise: give one."
            )

    def _check_requests(self, lowest: float, lasts_s: float) -> None:
        """Random arrivals of few may well be none, and a percentile of few says nothing."""
        if lowest * lasts_s < LEAST_REQUESTS:
            needed = math.ceil(LEAST_REQUESTS / lowest)
            self.add_error(
                "duration_s",
                f"At {figure(lowest)} a second these are about {figure(lowest * lasts_s)} "
                f"requests, too few to tell anything. Give a point {needed:,} s, or begin with "
                "a higher load.",
            )

    def _make_plan(self, cleaned: dict[str, Any]) -> None:
        try:
            cleaned["plan"] = Plan(
                mode=cleaned["mode"],
                arrivals=cleaned["arrivals"],
                loads=cleaned["loads"],
                repeats=cleaned["repeats"],
                promises=Promises(
                    ttft_ms=cleaned["ttft_ms"],
                    tpot_ms=cleaned["tpot_ms"],
                    e2e_ms=cleaned["e2e_ms"],
                    share=cleaned["share_percent"] / 100,
                ),
                bounds=Bounds(duration_s=cleaned["duration_s"], requests=cleaned["requests"]),
                most_s=cleaned["most_minutes"] * 60,
                most_requests=cleaned["most_requests"],
            )
        except PartInvalid as exc:
            for problem in exc.errors():
                self.add_error("loads", _problem(problem["msg"]))


def _load(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not 0 < value <= _LOAD_HIGHEST:
        raise ValidationError(f"“{word[:30]}” is no load: numbers above 0, up to 100,000.")
    return value


def _problem(words: str) -> str:
    return words.removeprefix("Value error, ")
