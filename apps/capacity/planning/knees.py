"""What load tests measured of the planned model, beside what is computed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from apps.capacity.selectors import newest_knees
from apps.capacity.showing.words import knee_words, workload_words

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class MeasuredKnee:
    """One finished test of the same model, under its own conditions."""

    name: str
    url: str
    at: datetime | None
    machine: str
    words: str
    workload: str


def knees_of(model: str) -> list[MeasuredKnee]:
    """The newest, of tests whose conditions or target name the model (or a variant of it)."""
    found = []
    for each in newest_knees(most=200):
        conditions = each.test.conditions
        called = str(conditions.get("model") or (each.target.model if each.target else ""))
        if _plain(model) in _plain(called):
            found.append(
                MeasuredKnee(
                    each.test.name,
                    reverse("capacity:test", args=[each.test.id]),
                    each.test.finished_at,
                    str(conditions.get("machine") or "a machine that is not described"),
                    knee_words(each),
                    workload_words(each.workload),
                )
            )
    return found[:_SHOWN]


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
