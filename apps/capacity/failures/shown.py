"""What showing a failure yields, and how it is written to a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from apps.capacity.load.measures import Record

Row = tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """A failure as it was seen here."""

    name: str
    title: str
    sentences: Sequence[str]  # each follows from `figures`
    figures: dict[str, Any]  # as JSON
    table: Sequence[Row]  # the figures of the chart; its first row is its head
    chart: str  # SVG
    trace: Sequence[dict[str, Any]]  # one request or question a line


@dataclass(frozen=True)
class Stage:
    """Where a failure is shown: a folder for logs, how short it is to be, whom to tell."""

    folder: Path
    is_quick: bool = False  # for tests of the way through: too few requests to conclude from
    tell: Callable[[str], None] = lambda _: None


class Show(Protocol):
    def __call__(self, stage: Stage) -> Shown: ...


def traced(arm: str, records: Iterable[Record]) -> list[dict[str, Any]]:
    """Records as lines of a trace, each with the `arm` of the experiment it belongs to."""
    lines = [record.model_dump(mode="json", exclude_defaults=True) for record in records]
    return [{"arm": arm, **line} for line in lines]


def write(shown: Shown, folder: Path) -> dict[str, Path]:
    """`trace.jsonl`, `figures.json`, `chart.svg` and `seen.md` in `folder`; their paths by kind."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "trace.jsonl": "".join(json.dumps(each) + "\n" for each in shown.trace),
        "figures.json": json.dumps(shown.figures, indent=2) + "\n",
        "chart.svg": shown.chart,
        "seen.md": markdown(shown, chart="chart.svg"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name.split(".")[0]: folder / name for name in texts}


def markdown(shown: Shown, *, chart: str) -> str:
    """A section: sentences, chart, table. `chart` is the picture's address."""
    head, *rows = shown.table
    lines = [f"## {shown.title}", "", *(f"- {each}" for each in shown.sentences), ""]
    lines += [f"![{shown.title}]({chart})", ""]
    lines += [_cells(head), _cells(["---"] * len(head)), *(_cells(row) for row in rows), ""]
    return "\n".join(lines)


def _cells(row: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
