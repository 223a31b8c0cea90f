"""Whether a passage answers the question at all: 0 to 1, comparable between questions.

Scores order passages within one answer; this says whether the best of them is worth reading out.
How it was calibrated, and what it cannot tell, is in docs/decisions/0016-ranking.md: it knows
another matter from the question's (area under the curve .99), and hardly a passage that nearly
answers from one that does (.66 on SQuAD 2's adversarial questions): that takes reading.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

# Without late interaction, or with words alone, the scale is another. Slope and intercept put the
# 3 % quantile and the median of answerable questions where the full measure has them (.46, .69).
_WITHOUT_LATE_INTERACTION = (0.87, 0.14)
_WORDS_ALONE = (0.80, 0.20)
# Pairs of characters are rarer (Han, kana) or commoner (Thai) in other texts than words are.
_WORDS_ALONE_IN = {"zh": (0.85, 0.36), "ja": (0.85, 0.36), "th": (1.10, -0.14)}

# Logistic regression on the calibrating half of SQuAD 2's questions. The intercept is for two
# answerable questions in three, where a limit of 0.42 refuses 3 % of the answerable.
# The numbers' weight is half the fitted one, which cost nothing measurable there: a passage that is
# about the question in all else still passes ("over 1000 employees").
_LIKENESS, _NUMBERS, _NAMES, _CLOSENESS, _INTERCEPT = 5.5, 2.0, 2.3, 4.0, -6.8
# Limits of the curve: what is refused below each.
CURVE_LIMITS = tuple(round(step / 50, 2) for step in range(51))


@dataclass(frozen=True)
class Evidence:
    """What is known of a question and a passage."""

    coverage: float  # share of the question's words that the passage has, by idf
    cosine: float | None  # None where the vectors were not used
    late_interaction: float | None  # mean best cosine of tokens; None without that reranker
    language: str  # of the question
    closeness: float = 1.0  # of the words covered, the share that two sentences in a row have
    numbers: float = 1.0  # shares of the question's numbers and names that the passage has
    names: float = 1.0


def relevance(evidence: Evidence) -> float:
    """From whatever signals there are, on one scale."""
    if evidence.cosine is None and not evidence.coverage:
        return 0.0
    said = (
        _LIKENESS * likeness(evidence)
        + _NUMBERS * evidence.numbers
        + _NAMES * evidence.names
        + _CLOSENESS * (evidence.closeness - 1.0) * evidence.coverage
        + _INTERCEPT
    )
    return 1.0 / (1.0 + math.exp(-said))


def likeness(evidence: Evidence) -> float:
    """How much the passage is about what the question is about, by cosines and words; 0 to 1."""
    if evidence.cosine is None:
        return _on(_WORDS_ALONE_IN.get(evidence.language, _WORDS_ALONE), evidence.coverage)
    if evidence.late_interaction is None:
        return _on(_WITHOUT_LATE_INTERACTION, (evidence.cosine + evidence.coverage) / 2)
    mixed = (evidence.cosine + 2 * evidence.late_interaction + evidence.coverage) / 4
    return _on((1.0, 0.0), mixed)


def refusal_curve(
    answerable: Sequence[float], unanswerable: Sequence[float]
) -> list[tuple[float, float, float]]:
    """What each limit would refuse: (limit, share of answerable, share of unanswerable).

    Each sequence holds one best relevance a question. Without questions of a kind its share is 0.
    """
    good, bad = sorted(answerable), sorted(unanswerable)
    return [(limit, _share_below(good, limit), _share_below(bad, limit)) for limit in CURVE_LIMITS]


def _share_below(ascending: Sequence[float], limit: float) -> float:
    return bisect_left(ascending, limit) / len(ascending) if ascending else 0.0


def _on(scale: tuple[float, float], value: float) -> float:
    slope, intercept = scale
    return min(1.0, max(0.0, slope * value + intercept))
