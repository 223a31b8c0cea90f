"""Late interaction: ColBERT's MaxSim (Khattab and Zaharia 2020) on an encoder's token vectors.

For each token of the question the best cosine over the passage's tokens, averaged with the weights
of the question's words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from apps.inference.types import Vectors, WeightedWord

Weights = npt.NDArray[np.float32]


def token_weights(
    offsets: Sequence[tuple[int, int]], special: Sequence[bool], words: Sequence[WeightedWord]
) -> Weights:
    """Weights that sum to 1, shape (tokens,): each token has its word's, special tokens 0.

    `offsets` are characters of the question. Without words, or where no token lies in a weighted
    one, every token that is not special counts alike.
    """
    plain = np.array([not flag for flag in special], np.float32)
    weights = plain * np.array([_weight_at(span, words) for span in offsets], np.float32)
    if not weights.any():
        weights = plain
    total = float(weights.sum())
    return weights / total if total else weights


def _weight_at(span: tuple[int, int], words: Sequence[WeightedWord]) -> float:
    start, end = span
    return max((w.weight for w in words if w.start < end and start < w.end), default=0.0)


def max_sim(question: Vectors, weights: Weights, passage: Vectors) -> float:
    """The weighted mean of best cosines; about 0 to 1. Unit vectors, one a token, are expected."""
    if not len(passage) or not len(question):
        return 0.0
    return float(weights @ (question @ passage.T).max(axis=1))


def unit(vectors: Vectors) -> Vectors:
    """`vectors` scaled to length 1 along the last axis; zero stays zero."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Vectors = (vectors / np.maximum(norms, 1e-12)).astype(np.float32)
    return scaled
