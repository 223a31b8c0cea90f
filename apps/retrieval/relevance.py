"""Whether a passage is about the question at all: 0 to 1, comparable between questions.

Scores order passages within one answer; this says whether the best of them is worth reading out.
Measured on SQuAD 2 and XQuAD (all-MiniLM-L6-v2, 400 questions the passages answer, 600 about other
matters), refusing 3 % of the former refuses of the latter:

| signals | area under the curve | refused |
|---|---|---|
| cosine | .93 to .97 | 49 to 76 % |
| share of the question's words, by idf | .98 to .99 | 89 to 97 % |
| late interaction | .99 | 92 to 99 % |
| ¼ cosine + ½ late interaction + ¼ words | .99 | 93 to 100 % |

No such signal tells a question that the passages nearly answer from one they do (area .65 on
SQuAD 2's adversarial questions): that takes reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from apps.retrieval.analysis import Word
from apps.retrieval.bm25 import Statistics

# Without late interaction, or with words alone, the scale is another. Slope and intercept put the
# 3 % quantile and the median of answerable questions where the full measure has them (.46, .69).
_WITHOUT_LATE_INTERACTION = (0.87, 0.14)
_WORDS_ALONE = (0.80, 0.20)
# Pairs of characters are rarer (Han, kana) or commoner (Thai) in other texts than words are.
_WORDS_ALONE_IN = {"zh": (0.85, 0.36), "ja": (0.85, 0.36), "th": (1.10, -0.14)}


@dataclass(frozen=True)
class Evidence:
    """What is known of a question and a passage."""

    coverage: float  # share of the question's words that the passage has, by idf
    cosine: float | None  # None where the vectors were not used
    late_interaction: float | None  # mean best cosine of tokens; None without that reranker
    language: str  # of the question


def relevance(evidence: Evidence) -> float:
    """From whatever signals there are, on one scale."""
    if evidence.cosine is None:
        if not evidence.coverage:
            return 0.0
        scale = _WORDS_ALONE_IN.get(evidence.language, _WORDS_ALONE)
        return _on(scale, evidence.coverage)
    if evidence.late_interaction is None:
        return _on(_WITHOUT_LATE_INTERACTION, (evidence.cosine + evidence.coverage) / 2)
    mixed = (evidence.cosine + 2 * evidence.late_interaction + evidence.coverage) / 4
    return _on((1.0, 0.0), mixed)


def coverage(words: Sequence[Word], present: AbstractSet[int], statistics: Statistics) -> float:
    """Share of the question's words that a text with the terms `present` has, weighed by idf.

    `words` may hold several stems of one word (the same offsets): any of them counts. 0 to 1.
    """
    weights: dict[tuple[int, int], float] = {}
    covered: set[tuple[int, int]] = set()
    for word in words:
        span = (word.start, word.end)
        weights[span] = max(weights.get(span, 0.0), statistics.idf(word.term))
        if word.term in present:
            covered.add(span)
    total = sum(weights.values())
    return sum(weights[span] for span in covered) / total if total else 0.0


def _on(scale: tuple[float, float], value: float) -> float:
    slope, intercept = scale
    return min(1.0, max(0.0, slope * value + intercept))
