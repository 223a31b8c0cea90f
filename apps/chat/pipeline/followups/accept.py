"""Whether a model's rewrite of a follow-up may be searched for.

The rewrite is a proposal by a model that has read hostile text: it may be an answer, an order
taken from a document, or a question that lost its number or its "not".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from apps.chat.pipeline.assemble import neutralise
from apps.chat.pipeline.citations import content_terms
from apps.chat.pipeline.followups import words as w

LONGER_BY_CHARS = 240  # than the follow-up: what was left out is rarely more than a clause
KEPT_FROM = 0.6  # share of the follow-up's own words that must be in the rewrite
SAID_FROM = 0.6  # share of the rewrite's own words that the conversation must hold
_QUESTION_MARKS = ("?", "؟", "？", ";")


def tidy(reply: str) -> str:
    """The question in a model's reply: its first line, without a label or quotation marks."""
    line = next((each.strip() for each in reply.splitlines() if each.strip()), "")
    line = re.sub(
        r"^(?:(?:the\s)?(?:re)?(?:written|phrased|formulated)|stand-?alone|final|last)?"
        r"\s*question(?: rewritten)?\s*:\s*",
        "",
        line,
        flags=re.IGNORECASE,
    )
    return line.strip("\"'“”„«»`* ")


def fault_of(rewritten: str, question: str, conversation: Sequence[str]) -> str:
    """Why `rewritten` is not taken, as a word for the span; "" where it is.

    `conversation` is all that the model was shown before `question`.
    """
    said = "\n".join([question, *conversation])
    own, asked = content_terms(rewritten), content_terms(question)
    if not rewritten.strip():
        return "empty"
    if len(rewritten) > len(question) + LONGER_BY_CHARS:
        return "too_long"
    if neutralise(rewritten) != " ".join(rewritten.split()):
        return "control_tokens"
    if not rewritten.endswith(_QUESTION_MARKS) and question.rstrip().endswith(_QUESTION_MARKS):
        return "no_question"
    if not set(w.NUMBER.findall(question)) <= set(w.NUMBER.findall(rewritten)):
        return "number_lost"
    if not set(w.NUMBER.findall(rewritten)) <= set(w.NUMBER.findall(said)):
        return "number_invented"
    if _negated(question) and not _negated(rewritten):
        return "negation_lost"
    if _negated(rewritten) and not _negated(said):
        return "negation_invented"
    if len(asked & own) < KEPT_FROM * len(asked):
        return "words_lost"
    if len(own & content_terms(said)) < SAID_FROM * len(own):
        return "words_invented"
    return ""


def _negated(text: str) -> bool:
    return w.NEGATION.search(text) is not None
