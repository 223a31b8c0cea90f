"""The citations of a whole answer."""

from __future__ import annotations

from apps.chat.pipeline.citations import match_sentences
from apps.chat.pipeline.prompts import NOT_FOUND_WORDS
from apps.chat.pipeline.types import Outcome


def earn_citations(outcome: Outcome) -> None:
    """Match the answer's sentences to what the model was shown; sets kind and sentences."""
    if outcome.text.strip().rstrip(".").endswith(NOT_FOUND_WORDS.rstrip(".")):
        outcome.kind = "not_found"
        return
    # A citation names a passage's own place: what stands around it counts only for a sentence
    # that no passage supports by itself.
    own = match_sentences(outcome.text, outcome.passages[: outcome.given])
    wide = match_sentences(outcome.text, outcome.widened)
    outcome.sentences = tuple(a if a.supported else b for a, b in zip(own, wide, strict=True))
