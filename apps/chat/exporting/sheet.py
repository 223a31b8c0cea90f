"""What is to be laid out: the branch that is shown, in the reader's words, and clean."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from apps.chat.exporting.tree import Block


@dataclass(frozen=True)
class SheetSource:
    number: int  # the [n] of the answer
    document: str
    place: str  # "page 3", in words


@dataclass(frozen=True)
class SheetPart:
    """A question, or an answer with its sources."""

    is_answer: bool
    label: str  # "Question 3"
    detail: str  # when, and which model
    text: str  # of a question
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()  # how it ended, what was degraded
    doubts: tuple[str, ...] = ()  # what [?] in it means
    sources_label: str = ""
    sources: tuple[SheetSource, ...] = ()


@dataclass(frozen=True)
class Sheet:
    title: str
    detail: str  # where it is from, and when it was exported
    language: str  # "en", "zh"
    region: str  # "" or "cn"
    rtl: bool  # of the words that are the site's own
    made_on: datetime
    unshown_label: str  # what a character in code form means
    parts: tuple[SheetPart, ...]
