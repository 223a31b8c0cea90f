"""The memo as Markdown. Names are of others: what they could mark up is escaped."""

from __future__ import annotations

import re

from django.conf import settings

from apps.capacity.economics.memo import Memo
from apps.capacity.economics.words import day

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&])")
_SPACES = re.compile(r"\s+")


def memo_markdown(memo: Memo) -> str:
    """CommonMark with a GFM table."""
    parts = [
        f"# {escape(memo.title)}",
        f"{day(memo.made_on)}, amounts in {settings.CURRENCY}",
        f"**{escape(memo.recommendation)}**",
        _list(memo.because),
        "## What would reverse it",
        _list(memo.reverses),
        "## Figures, and where they are from",
        _table(memo),
        "## Assumptions",
        _list(memo.assumptions),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """One line, nothing of it markup."""
    return _SPECIAL.sub(r"\\\1", _SPACES.sub(" ", text).strip())


def _list(lines: list[str]) -> str:
    return "\n".join(f"- {escape(line)}" for line in lines)


def _table(memo: Memo) -> str:
    rows = [["Figure", "Value", "Kind", "Source"], ["---"] * 4]
    rows += [
        [escape(part) for part in (fact.name, fact.value, fact.kind_words, fact.source)]
        for fact in memo.facts
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
