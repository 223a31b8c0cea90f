"""The citations of a whole answer, and of its blocks while it is written."""

from __future__ import annotations

from apps.chat.pipeline.citations import Evidence
from apps.chat.pipeline.prompts import NOT_FOUND_WORDS
from apps.chat.pipeline.types import Outcome, Sentence


class Earning:
    """What sentences earn from the passages that the model was shown."""

    def __init__(self, outcome: Outcome) -> None:
        self._own = Evidence(outcome.passages[: outcome.given])
        self._wide = Evidence(outcome.widened)

    def judge(self, text: str) -> tuple[Sentence, ...]:
        """The sentences of `text`, whole blocks of Markdown."""
        # A citation names a passage's own place: what stands around it counts only for a sentence
        # that no passage supports by itself.
        own, wide = self._own.judge(text), self._wide.judge(text)
        return tuple(a if a.supported else b for a, b in zip(own, wide, strict=True))


def earn_citations(outcome: Outcome) -> None:
    """Match the answer's sentences to what the model was shown; sets kind and sentences."""
    if outcome.text.strip().rstrip(".").endswith(NOT_FOUND_WORDS.rstrip(".")):
        outcome.kind = "not_found"
        return
    outcome.sentences = Earning(outcome).judge(outcome.text)
