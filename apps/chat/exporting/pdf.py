"""The branch that is shown as PDF: the sheet as data for the page maker, which is sandboxed."""

from __future__ import annotations

import unicodedata
from typing import Any

from apps.chat.exporting.cleaning import clean_name
from apps.chat.exporting.formulas import read_formula
from apps.chat.exporting.sheet import Sheet, SheetPart
from apps.chat.exporting.tree import Block, Run, text_of

_EXCERPT_CHARS = 100


def page_data(sheet: Sheet) -> dict[str, Any]:
    """What `conversation.typ` lays out."""
    made_on = sheet.made_on
    return {
        "title": sheet.title,
        "rtl_title": is_rtl(sheet.title),
        "detail": sheet.detail,
        "language": sheet.language,
        "region": sheet.region or None,
        "rtl": sheet.rtl,
        "made_on": {"year": made_on.year, "month": made_on.month, "day": made_on.day},
        "unshown_label": sheet.unshown_label,
        "parts": [_part(part) for part in sheet.parts],
    }


def _part(part: SheetPart) -> dict[str, Any]:
    excerpt = "" if part.is_answer else _excerpt(part.text)
    whole = not part.is_answer and excerpt == clean_name(part.text)
    return {
        "role": "answer" if part.is_answer else "question",
        "label": part.label,
        "detail": part.detail,
        "excerpt": excerpt,
        "rtl": is_rtl(excerpt),
        "blocks": [_block(each) for each in part.blocks if not whole],
        "notes": part.notes,
        "doubts": part.doubts,
        "sources_label": part.sources_label,
        "sources": [
            {"number": each.number, "document": each.document, "place": each.place}
            for each in part.sources
        ],
    }


def _excerpt(text: str) -> str:
    """A question as a heading and in the outline."""
    line = clean_name(text)
    return line if len(line) <= _EXCERPT_CHARS else line[: _EXCERPT_CHARS - 1].rstrip() + "…"


def _block(block: Block) -> dict[str, Any]:
    return {
        "kind": block.kind,
        "runs": [_run(run) for run in block.runs],
        "blocks": [_block(each) for each in block.blocks],
        "text": block.text,
        "formula": read_formula(block.text, display=True) if block.kind == "math" else None,
        "info": block.info,
        "level": block.level,
        "start": block.start,
        "rtl": is_rtl(text_of(block)),
    }


def _run(run: Run) -> dict[str, Any]:
    is_math = run.kind in ("math", "display")
    return {
        "kind": run.kind,
        "text": run.text,
        "formula": read_formula(run.text, display=run.kind == "display") if is_math else None,
        "styles": list(run.styles),
        "href": run.href,
    }


def is_rtl(text: str) -> bool:
    """Whether its first letter with a direction is read from right to left."""
    for character in text:
        direction = unicodedata.bidirectional(character)
        if direction in ("L", "R", "AL"):
            return direction != "L"
    return False
