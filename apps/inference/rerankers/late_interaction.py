"""Late interaction on the embedding model's own token vectors, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from apps.inference.local_encoder import LocalEncoder, Pace
from apps.inference.maxsim import max_sim, token_weights
from apps.inference.types import WeightedWord


class LateInteractionReranker:
    """A Reranker that needs no model but the embedder's. Scores are about 0 to 1."""

    name = "late-interaction"

    def __init__(self, encoder: LocalEncoder, *, pace: Pace = nullcontext) -> None:
        self._encoder = encoder
        self._pace = pace

    def score(
        self, question: str, passages: Sequence[str], words: Sequence[WeightedWord] = ()
    ) -> list[float]:
        """One score a passage, in the order given."""
        if not passages:
            return []
        encodings = self._encoder.tokenize([question, *passages])
        asked, *vectors = self._encoder.embed_tokens(encodings, self._pace)
        special = [bool(flag) for flag in encodings[0].special_tokens_mask]
        weights = token_weights(encodings[0].offsets, special, words)
        return [max_sim(asked, weights, passage) for passage in vectors]
