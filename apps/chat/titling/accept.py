"""Whether a model's title may stand in the list of conversations.

It is a proposal by a model that has read hostile text, or by one too small to do as it is told.
"""

from __future__ import annotations

import re

from apps.chat.pipeline.assemble import neutralise
from apps.chat.pipeline.citations import MARKER, content_terms

MAX_CHARS = 60
SAID_FROM = 0.5  # share of the title's own words that question and answer must hold
_LABEL = re.compile(r"^(?:the\s+)?(?:conversation\s+)?(?:title|titel|titre|título)\s*:\s*", re.I)
_QUOTES = "\"'“”„«»‘’`*_# "


def tidy(reply: str) -> str:
    """The title in a model's reply: its first line, without a label, marks or a full stop."""
    line = next((each.strip() for each in reply.splitlines() if each.strip()), "")
    line = _LABEL.sub("", MARKER.sub("", line).strip(_QUOTES)).strip(_QUOTES)
    return " ".join(line.rstrip(".。").split())


def fault_of(title: str, question: str, answer: str) -> str:
    """Why `title` is not taken, as a word for the log; "" where it is."""
    own, said = content_terms(title), content_terms(f"{question}\n{answer}")
    if not own:
        return "empty"
    if len(title) > MAX_CHARS:
        return "too_long"
    if neutralise(title) != title or "://" in title:
        return "not_plain"
    if _letters(title) in (_letters(question), _letters(answer)):
        return "echo"
    if len(own & said) < SAID_FROM * len(own):
        return "words_invented"
    if _is_latin(title) != _is_latin(question):
        return "other_language"
    return ""


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _is_latin(text: str) -> bool:
    """Most of its letters are; a title in another script than the question is no use to it."""
    letters = [character for character in text if character.isalpha()]
    return 2 * sum(character < "\u0250" for character in letters) > len(letters)
