"""The demo's page, as Markdown and as HTML with its charts beside it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from django.utils import timezone
from django.utils.html import escape
from markdown_it import MarkdownIt

TITLE = "Capacity, measured on this machine"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;"
    "color:#1f2328;background:#fff}img{max-width:100%}pre{overflow-x:auto;background:#f6f8fa;"
    "padding:1rem}table{border-collapse:collapse}td,th{border:1px solid #d0d7de;padding:.25rem "
    ".5rem;text-align:start}"
)


def write_report(
    folder: Path, sections: Sequence[str], took: Sequence[tuple[str, float]], *, cores: int
) -> Path:
    """`report.md` and `report.html` in `folder`; the path of the latter."""
    when = f"{timezone.now():%Y-%m-%d %H:%M} UTC"
    total = sum(seconds for _, seconds in took) / 60
    steps = "; ".join(f"{name} {seconds:.0f} s" for name, seconds in took)
    head = (
        f"# {TITLE}\n\nMeasured {when} on {cores} cores ({platform.machine()}), the embedded "
        f"engine, whatever else was at work there. It took {total:.1f} minutes: {steps}."
    )
    text = "\n\n".join([head, *sections]) + "\n"
    (folder / "report.md").write_text(text, encoding="utf-8")
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(TITLE)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<body>{body}</body></html>\n"
    )
    (folder / "report.html").write_text(page, encoding="utf-8")
    return folder / "report.html"
