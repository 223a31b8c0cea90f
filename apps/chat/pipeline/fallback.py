"""Answers without a model: the best passages quoted, or the plain word that nothing was found."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.utils.translation import gettext_noop

from apps.chat.pipeline.types import Sentence
from apps.retrieval.types import Passage

QUOTED_PASSAGES = 3
NOT_FOUND_TEXT = gettext_noop(
    "Your documents do not seem to answer this. The passages that come nearest are listed as "
    "sources; rephrasing the question, or picking other collections, may help."
)
NO_DOCUMENTS_TEXT = gettext_noop(
    "There is nothing to search yet: none of the collections you picked has a document that is "
    "ready. Upload one, or pick another collection."
)
# In English wherever they are kept; each asker is given them in their own language.
FIXED_TEXTS = frozenset({NOT_FOUND_TEXT, NO_DOCUMENTS_TEXT})
_MARKDOWN = re.compile(r"([\\`*_{}<>#+\-.!|~=:&$])")
# Behind a backslash they would begin a formula.
_BRACKETS = {"[": "&#91;", "]": "&#93;"}


def quote_passages(passages: Sequence[Passage]) -> tuple[str, tuple[Sentence, ...]]:
    """Markdown that quotes the best passages word for word, each with its marker."""
    text = ""
    sentences = []
    for marker, passage in enumerate(passages[:QUOTED_PASSAGES], start=1):
        text += "> "
        start = len(text)
        text += f"{escape_markdown(' '.join(passage.text.split()))} [{marker}]"
        sentences.append(Sentence(start, len(text), (marker,), supported=True))
        text += "\n\n"
    return text.rstrip(), tuple(sentences)


def escape_markdown(text: str) -> str:
    """Text of a document as literal text in Markdown."""
    escaped = _MARKDOWN.sub(r"\\\1", text)
    return "".join(_BRACKETS.get(sign, sign) for sign in escaped)
