"""What pages and commands show of gates: figures and names, no text of a tenant."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.evals.answering.judging import NEEDLE, NEEDLE_METRIC
from apps.evals.answering.scoring import JUDGED
from apps.evals.charts import Axis, Chart, Reading, Series, draw
from apps.evals.models import AnswerRun, LabelledSet
from apps.gateway.calling.serving import differing, read_serving
from apps.tenants.models import Membership, Role, Tenant, User
from apps.tenants.scope import tenant_scope
from apps.tenants.selectors import readable_by_ops

NEWEST = 50
METRIC_WORDS = {
    "answer_match": "Answer match",
    "citation_precision": "Citation precision",
    "abstention": "Right to answer or abstain",
    "exact_match": "Exact match",
    "token_f1": "Token F1",
    "citation_recall": "Citation recall",
    NEEDLE_METRIC: "Needle found",
}
VERDICT_WORDS = {
    "within": "within its budget",
    "beyond": "beyond its budget",
    "few": "too few to tell",
    "open": "a loss beyond it is not ruled out",
    "": "shown only",
}


@dataclass(frozen=True)
class Metric:
    """One metric by slice: a chart where it is judged, and the rows of its table."""

    name: str
    title: str
    rows: Sequence[dict[str, Any]]
    chart: Chart | None


def newest_gates() -> list[AnswerRun]:
    return list(
        AnswerRun.objects.select_related("tenant", "created_by").order_by("-created_at")[:NEWEST]
    )


def get_gate(run_id: uuid.UUID) -> AnswerRun | None:
    return AnswerRun.objects.select_related("tenant", "created_by").filter(id=run_id).first()


def task_sets(user: User) -> list[tuple[Tenant, LabelledSet]]:
    """Sets that a person of operations may have asked: of tenants that let them read, or where
    they have a right to the documents."""
    own = Membership.objects.filter(user=user, role__in=[Role.TENANT_MANAGER, Role.CORPUS_ADMIN])
    ids = {*readable_by_ops(user).values_list("id", flat=True)} | {
        *own.values_list("tenant_id", flat=True)
    }
    found = []
    for tenant in Tenant.objects.filter(id__in=ids).order_by("name"):
        with tenant_scope(tenant.id):
            sets = LabelledSet.objects.filter(tenant=tenant).order_by("name")
            found += [(tenant, each) for each in sets]
    return found


def changes_of(run: AnswerRun) -> dict[str, tuple[Any, Any]]:
    """What differs between what is in force and the candidate."""
    try:
        sides = (read_serving(run.in_force["serving"]), read_serving(run.candidate["serving"]))
    except (KeyError, TypeError):  # of a version that had other fields
        return {}
    return {name.replace("_", " "): both for name, both in differing(*sides).items()}


def metrics_of(run: AnswerRun) -> list[Metric]:
    """Judged metrics first, each with its slices in order."""
    rows: list[dict[str, Any]] = run.figures.get("rows", [])
    found = []
    for name, title in METRIC_WORDS.items():
        of_it = [_shown(number, each) for number, each in enumerate(_of(rows, name), start=1)]
        if of_it:
            judged = name in JUDGED or name == NEEDLE_METRIC
            found.append(Metric(name, title, of_it, _chart(of_it) if judged else None))
    return found


def needle_grid(run: AnswerRun) -> list[dict[str, Any]]:
    """A line a side and length: how many of how many were found, by depth."""
    cells: list[dict[str, Any]] = run.figures.get("needles", [])
    depths = needle_depths(run)
    lines = sorted({(each["side"] != "in_force", each["side"], each["tokens"]) for each in cells})
    by_place = {(each["side"], each["tokens"], each["depth"]): each for each in cells}
    return [
        {
            "side": "In force" if side == "in_force" else "Candidate",
            "tokens": tokens,
            "cells": [by_place.get((side, tokens, depth)) for depth in depths],
        }
        for _, side, tokens in lines
    ]


def needle_depths(run: AnswerRun) -> list[float]:
    return sorted({each["depth"] for each in run.figures.get("needles", [])})


def _of(rows: Iterable[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    return [each for each in rows if each["metric"] == metric]


def _shown(number: int, row: dict[str, Any]) -> dict[str, Any]:
    kind, _, name = row["slice"].partition("/")
    points = {key: 100 * row[key] for key in ("in_force", "candidate", "low", "high", "budget")}
    return {
        **row,
        **points,
        "number": number,
        "name": name,
        "own": kind == "own",
        "needle": row["slice"] == NEEDLE,
        "change": points["candidate"] - points["in_force"],
        "words": VERDICT_WORDS[row["verdict"]],
    }


def _chart(rows: Sequence[dict[str, Any]]) -> Chart:
    """Change by slice, in points, with its interval; the slices by their number in the table."""
    ends = [end for row in rows for end in (row["low"], row["high"], -row["budget"], 0.0)]
    step = 5 if max(ends) - min(ends) <= 40 else 20
    low, high = (int(min(ends) // step) * step, -int(-max(ends) // step) * step or step)
    ticks = [(float(at), f"{at:+d}") for at in range(low, high + 1, step)]
    readings = [
        Reading(
            row["number"],
            row["change"],
            f"{row['number']}, {row['name']}: {row['change']:+.1f} points, "
            f"{row['low']:+.1f} to {row['high']:+.1f}, {row['words']}",
            low=row["low"],
            high=row["high"],
        )
        for row in rows
    ]
    numbers = [(float(row["number"]), str(row["number"])) for row in rows]
    return draw(
        [Series("Candidate less in force, in points, with its 95 % interval", readings)],
        x=Axis(0.5, len(rows) + 0.5, numbers),
        y=Axis(float(low), float(high), ticks),
        levels=[(0.0, "no change")],
    )
