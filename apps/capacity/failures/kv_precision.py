"""Keys and values kept in fewer bits: the average holds, a slice may not."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import numpy as np

from apps.capacity.errors import TargetDown
from apps.capacity.failures.drawing import COLOURS, QUIET, Drawing
from apps.capacity.failures.engines import engine
from apps.capacity.failures.recalling import SLICES, Question, is_right, questions
from apps.capacity.failures.shown import Row, Shown, Stage
from apps.evals.bootstrap import mean_intervals

RUNGS = ("f16", "q8_0", "q4_0")  # the first is what the others are compared with
BUDGET = 0.05  # of accuracy that a change may cost, on the average or in a slice
ALL = "all"
TITLE = "Keys and values in fewer bits"
_ANSWER_TOKENS = 6

Marks = Mapping[str, Sequence[bool]]  # of each rung, one for each question


def show(stage: Stage) -> Shown:
    """The same questions, greedily answered, with each precision of the cache."""
    asked = questions(lists=1) if stage.is_quick else questions()
    marks: dict[str, list[bool]] = {}
    trace: list[dict[str, Any]] = []
    for rung in RUNGS[::2] if stage.is_quick else RUNGS:
        stage.tell(f"{len(asked)} questions with keys and values in {rung}")
        options = ("--slots", "1", "--cache-type-k", rung, "--cache-type-v", rung)
        with engine(*options, log=stage.folder / "engine.log") as running, running.client() as http:
            lines = [_answered(http, each) for each in asked]
        marks[rung] = [line["right"] for line in lines]
        trace += [{"arm": rung, **line} for line in lines]
    figures = figures_of([each.slice for each in asked], marks)
    return Shown(
        name="kv-precision",
        title=TITLE,
        sentences=sentences_of(figures),
        figures=figures,
        table=_table(figures),
        chart=_chart(figures),
        trace=trace,
    )


def _answered(http: httpx.Client, question: Question) -> dict[str, Any]:
    began = time.monotonic()
    body = {"prompt": question.prompt, "n_predict": _ANSWER_TOKENS, "temperature": 0}
    reply = http.post("/completion", json={**body, "cache_prompt": True, "stop": [question.stop]})
    if reply.status_code != 200:
        raise TargetDown(f"The engine answered a question with HTTP {reply.status_code}.")
    said = str(reply.json().get("content", ""))
    took_s = round(time.monotonic() - began, 4)
    return {"slice": question.slice, "right": is_right(question, said), "took_s": took_s}


def figures_of(slices: Sequence[str], marks: Marks) -> dict[str, Any]:
    """Accuracy by rung and slice with its 95 % interval, and the change from the first rung.

    Changes are drawn by question, both rungs' marks together (paired).
    """
    names = [ALL, *dict.fromkeys(slices)]
    chosen = {name: [at for at, each in enumerate(slices) if name in (ALL, each)] for name in names}
    first = next(iter(marks))
    rungs = {}
    for rung, right in marks.items():
        each = np.array([right, marks[first]], dtype=np.float64).T
        rungs[rung] = {name: _measured(each[places]) for name, places in chosen.items()}
    return {"base": first, "budget": BUDGET, "rungs": rungs}


def _measured(pairs: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    columns = np.column_stack([pairs[:, 0], pairs[:, 0] - pairs[:, 1]])
    accuracy, change = mean_intervals(columns)
    return {
        "questions": len(pairs),
        "accuracy": float(columns[:, 0].mean()),
        "low": accuracy[0],
        "high": accuracy[1],
        "change": float(columns[:, 1].mean()),
        "change_low": change[0],
        "change_high": change[1],
    }


def sentences_of(figures: dict[str, Any]) -> list[str]:
    base, budget = figures["base"], figures["budget"]
    known = figures["rungs"][base]
    lines = [f"With {base}: " + ", ".join(f"{n} {_share(e)}" for n, e in known.items()) + "."]
    for rung, found in figures["rungs"].items():
        if rung != base:
            lines += _of_rung(rung, base, found, budget)
    return lines


def _of_rung(rung: str, base: str, found: dict[str, Any], budget: float) -> list[str]:
    average = found[ALL]
    slices = {name: each for name, each in found.items() if name != ALL}
    lost = {name: each for name, each in slices.items() if each["change"] < -budget}
    sure = {name: each for name, each in lost.items() if each["change_high"] < 0}
    words = f"With {rung} instead of {base} the average changed by {_change(average)}"
    if not lost:
        return [f"{words}, and no slice lost more than {budget:.0%}: the failure did not show."]
    names = "; ".join(f"{name} by {_change(each)}" for name, each in lost.items())
    lines = [f"{words}; slices beyond a budget of {budget:.0%}: {names}."]
    if average["change"] >= -budget and sure:
        lines.append(
            f"So {rung} passes a gate on the average and fails one on slices: the loss in "
            f"{' and '.join(sure)} is outside its budget, and no chance (its interval is below 0)."
        )
    elif average["change"] < -budget:
        lines.append(f"With {rung} the average itself is beyond the budget: it hides nothing.")
    else:
        lines.append("The intervals reach 0: with so few questions it may be chance.")
    return lines


def _share(each: dict[str, Any]) -> str:
    return f"{each['accuracy']:.1%} of {each['questions']}"


def _change(each: dict[str, Any]) -> str:
    low, high = each["change_low"] * 100, each["change_high"] * 100
    return f"{each['change'] * 100:+.1f} points (95 % interval {low:+.1f} to {high:+.1f})"


def _table(figures: dict[str, Any]) -> list[Row]:
    rows: list[Row] = [("slice", "precision", "questions", "right", "95 % interval", "change")]
    for name in figures["rungs"][figures["base"]]:
        for rung, found in figures["rungs"].items():
            each = found[name]
            change = "-" if rung == figures["base"] else _change(each)
            interval = f"{each['low']:.1%} to {each['high']:.1%}"
            right = f"{each['accuracy']:.1%}"
            rows.append((name, rung, str(each["questions"]), right, interval, change))
    return rows


def _chart(figures: dict[str, Any]) -> str:
    tasks = "; ".join(f"{name}: {words}" for name, words in SLICES.items())
    summary = f"Share of right answers with its 95 % interval, by slice. {tasks}."
    drawing = Drawing(TITLE, summary)
    drawing.key(list(figures["rungs"]))
    across, _ = drawing.panel(0, (0.0, 100.0), (0.0, 0.0))
    drawing.y += 4
    for name in figures["rungs"][figures["base"]]:
        drawing.y += 22
        drawing.text(24, drawing.y, name, bold=True)
        for kind, found in enumerate(figures["rungs"].values()):
            _interval(drawing, across, found[name], kind)
    drawing.y += 12
    drawing.below(across, "right answers, percent")
    return drawing.svg()


def _interval(drawing: Drawing, across: Any, each: dict[str, Any], kind: int) -> None:
    left, middle, right = (across(100 * each[end]) for end in ("low", "accuracy", "high"))
    drawing.line(left, drawing.y - 4, right, drawing.y - 4, COLOURS[kind % len(COLOURS)], 2)
    drawing.mark(middle, drawing.y - 4, kind)
    words = f"{each['accuracy']:.0%}"
    if left > 130:
        drawing.text(left - 8, drawing.y, words, colour=QUIET, anchor="end")
    else:
        drawing.text(right + 8, drawing.y, words, colour=QUIET)
    drawing.y += 18
