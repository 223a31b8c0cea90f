"""Putting scores of different scales together. Pure functions.

z(vector) + z(BM25) beat reciprocal-rank fusion on five of six collections and tied on the sixth;
and z(vector) + z(BM25) + z(late interaction) orders best of all.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from apps.retrieval.types import Candidate

Scores = npt.NDArray[np.float64]

# Cosines that spread less than this do not tell candidates apart: five times what rounding to
# bfloat16 moves them. Over the candidates of a question they spread by .04 to .2.
COSINE_SPREAD = 0.02


def standardise(values: Sequence[float | None], *, least_spread: float = 1e-9) -> Scores:
    """z-scores: minus the mean, over the standard deviation. None stays neutral, at 0.

    Values that do not differ say nothing, and become zeros; those that differ by less than
    `least_spread` say little, and are divided by that.
    """
    raw = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    known = raw[np.isfinite(raw)]
    if known.size == 0:
        return np.zeros(len(values))
    spread = float(known.std())
    if spread < 1e-9:
        return np.zeros(len(values))
    scores: Scores = np.nan_to_num((raw - known.mean()) / max(spread, least_spread), nan=0.0)
    return scores


def fuse(
    vector_scores: Mapping[uuid.UUID, float], bm25_scores: Mapping[uuid.UUID, float]
) -> list[Candidate]:
    """Both legs' candidates in the order of z(vector) + z(BM25), best first.

    A candidate BM25 did not return counts as scoring 0 there. One without a vector score (none
    was computed, or its language is foreign to the model) counts as the leg's mean. A leg that
    returned nothing has no say.
    """
    ids = sorted({*vector_scores, *bm25_scores})
    total = _of_cosines([vector_scores.get(chunk) for chunk in ids])
    if bm25_scores:
        total = total + standardise([bm25_scores.get(chunk, 0.0) for chunk in ids])
    candidates = [
        Candidate(chunk, vector_scores.get(chunk), bm25_scores.get(chunk), float(score))
        for chunk, score in zip(ids, total, strict=True)
    ]
    return sorted(candidates, key=lambda candidate: (-candidate.fused_score, candidate.chunk_id))


def combine(candidates: Sequence[Candidate], reranked: Sequence[float | None]) -> list[float]:
    """Final scores of the candidates that were reranked, all legs standardised over just these.

    A candidate that the reranker does not know how to read (None) counts as its mean.
    """
    total = _of_cosines([candidate.vector_score for candidate in candidates])
    if any(candidate.bm25_score for candidate in candidates):
        total = total + standardise([candidate.bm25_score or 0.0 for candidate in candidates])
    return [float(score) for score in total + standardise(reranked)]


def _of_cosines(values: Sequence[float | None]) -> Scores:
    return standardise(values, least_spread=COSINE_SPREAD)
