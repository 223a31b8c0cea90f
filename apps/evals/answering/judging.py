"""Whether a candidate may take the place of what is in force: by slice, not on average.

Paired by question: both answered the same ones, so what is drawn anew is the difference
(`apps.evals.bootstrap`, 2,000 resamples, 95 %). A slice fails where the mean loss is more than its
budget. Many slices are many chances for one to fall by chance alone; no correction (Holm) is made
for that, since it would let real losses pass more easily: a gate errs on the side of refusing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from apps.evals.answering.scoring import JUDGED, SHOWN
from apps.evals.answering.slicing import AUTO, FEW
from apps.evals.bootstrap import mean_intervals

DEFAULT_BUDGET = 0.02
NEEDLE, NEEDLE_METRIC, NEEDLE_BUDGET = "needle/long contexts", "needle_found", 0.05
# `mean`: the loss itself is within the budget. `bound`: the interval is, so a loss beyond it is
# all but ruled out; that takes hundreds of questions a slice.
Rule = Literal["mean", "bound"]
Verdict = Literal["within", "beyond", "few", "open"]
_EXACT = 1e-9


@dataclass(frozen=True)
class Budgets:
    """How much each slice may lose, from 0 to 1; by the slice's name without its kind."""

    default: float = DEFAULT_BUDGET
    slices: Mapping[str, float] = field(default_factory=dict)
    needle: float = NEEDLE_BUDGET
    rule: Rule = "mean"

    def of(self, slice_name: str) -> float:
        if slice_name == NEEDLE:
            return self.needle
        return self.slices.get(slice_name.partition("/")[2], self.default)

    def as_json(self) -> dict[str, Any]:
        return {
            "default": self.default,
            "slices": dict(self.slices),
            "needle": self.needle,
            "rule": self.rule,
        }


def read_budgets(data: Mapping[str, Any]) -> Budgets:
    """From JSON. Raises ValueError for what is no share."""
    found = Budgets(
        float(data.get("default", DEFAULT_BUDGET)),
        {str(name): float(value) for name, value in data.get("slices", {}).items()},
        float(data.get("needle", NEEDLE_BUDGET)),
        data.get("rule", "mean"),
    )
    for value in (found.default, found.needle, *found.slices.values()):
        if not math.isfinite(value) or not 0 <= value <= 1:
            raise ValueError(f"A budget is a share from 0 to 1, such as 0.02; {value} is none.")
    if found.rule not in ("mean", "bound"):
        raise ValueError("The rule is mean or bound.")
    return found


def parse_budgets(texts: Iterable[str], rule: str) -> Budgets:
    """`0.02` in general, `tables=0.05` of a slice. Raises ValueError with what is wrong."""
    data: dict[str, Any] = {"rule": rule, "slices": {}}
    for text in texts:
        name, _, share = text.rpartition("=")
        try:
            value = float(share)
        except ValueError:
            raise ValueError(f"{text!r} is not a share such as 0.02 or tables=0.05.") from None
        if name.strip() in ("", "default"):
            data["default"] = value
        elif name.strip() == "needle":
            data["needle"] = value
        else:
            data["slices"][name.strip()] = value
    return read_budgets(data)


@dataclass(frozen=True)
class Pair:
    """One question: what both made of it, and its slices."""

    slices: tuple[str, ...]
    in_force: Mapping[str, float]
    candidate: Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """One metric of one slice. `change` is candidate less in force; its interval is of 95 %."""

    slice: str
    metric: str
    questions: int
    in_force: float
    candidate: float
    low: float
    high: float
    budget: float
    verdict: Verdict | Literal[""]  # "" of a metric that is only shown

    @property
    def change(self) -> float:
        return self.candidate - self.in_force

    @property
    def blocks(self) -> bool:
        """Whether the gate cannot pass for it. A slice that is read off the text and has few
        questions is shown, and blocks only by an evident fall."""
        is_open = self.verdict == "open" or (
            self.verdict == "few" and not self.slice.startswith(f"{AUTO}/")
        )
        return self.verdict == "beyond" or is_open


def judge(pairs: Sequence[Pair], budgets: Budgets, *, seed: int = 0) -> list[Row]:
    """A row for each slice and metric that both sides have, in a stable order."""
    names = sorted({name for pair in pairs for name in pair.slices}, key=_order)
    rows = [
        _row(name, metric, pairs, budgets, seed)
        for name in names
        for metric in (*JUDGED, *SHOWN, NEEDLE_METRIC)
    ]
    return [row for row in rows if row is not None]


def outcome(rows: Sequence[Row]) -> Literal["passed", "failed", "undecided"]:
    """Failed by any slice beyond its budget; undecided where one that matters cannot be told."""
    judged = [row for row in rows if row.verdict]
    if any(row.verdict == "beyond" for row in judged):
        return "failed"
    if not judged or any(row.blocks for row in judged):
        return "undecided"
    return "passed"


def _order(name: str) -> tuple[int, str]:
    kinds = ("all", "answers", "own", "auto", "needle")
    return kinds.index(name.partition("/")[0]), name


def _row(name: str, metric: str, pairs: Sequence[Pair], budgets: Budgets, seed: int) -> Row | None:
    values = np.array(
        [
            [pair.in_force[metric], pair.candidate[metric]]
            for pair in pairs
            if name in pair.slices and metric in pair.in_force and metric in pair.candidate
        ],
        dtype=np.float64,
    )
    if not len(values):
        return None
    differences = values[:, 1] - values[:, 0]
    [(low, high)] = mean_intervals(differences.reshape(-1, 1), seed=seed)
    budget = budgets.of(name)
    loss = -float(differences.mean())
    judged = metric in JUDGED or metric == NEEDLE_METRIC
    return Row(
        slice=name,
        metric=metric,
        questions=len(values),
        in_force=float(values[:, 0].mean()),
        candidate=float(values[:, 1].mean()),
        low=low,
        high=high,
        budget=budget,
        verdict=_verdict(len(values), loss, low, high, budget, budgets.rule) if judged else "",
    )


def _verdict(
    questions: int, loss: float, low: float, high: float, budget: float, rule: Rule
) -> Verdict:
    if questions < FEW:
        # Few questions cannot show that all is well, but they can show that it is not.
        return "beyond" if high < -budget - _EXACT else "few"
    if loss > budget + _EXACT:
        return "beyond"
    return "open" if rule == "bound" and low < -budget - _EXACT else "within"
