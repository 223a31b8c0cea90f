"""An answer for the clipboard: as Markdown, and as HTML that word processors take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from apps.chat.pipeline.types import Sentence
from apps.chat.rendering.cleaning import clean
from apps.chat.rendering.markdown import markdown
from apps.chat.rendering.marks import write_marks
from apps.chat.rendering.positions import PRIVATE

_CODE_HEAD = re.compile(r'<div class="code-head">.*?</div>', re.DOTALL)
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|$~])")


@dataclass(frozen=True)
class Source:
    """A passage that an answer cites."""

    marker: int
    name: str
    place: str  # "page 3"


@dataclass(frozen=True)
class Copy:
    """One answer, twice."""

    markdown: str
    html: str


def copy_answer(text: str, sentences: Sequence[Sentence], sources: Sequence[Source]) -> Copy:
    """An answer with the numbers of `sources` and their list below; with none of either without."""
    written = write_marks(PRIVATE.sub("", text), sentences, [each.marker for each in sources])
    if sources:
        lines = "\n".join(f"- [{s.marker}] {_literal(s.name)}, {s.place}" for s in sources)
        title = _("Sources:")  # not within the f-string: xgettext reads none
        written = f"{written.rstrip()}\n\n{title}\n\n{lines}\n"
    return Copy(written, _CODE_HEAD.sub("", clean(markdown.render(written))))


def _literal(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
