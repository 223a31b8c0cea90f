"""Late interaction on the embedding model's own token vectors, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

from apps.inference.local_encoder import LocalEncoder, Pace
from apps.inference.maxsim import max_sim, token_weights
from apps.inference.rerankers.token_cache import TokenCache
from apps.inference.types import WeightedWord


class LateInteractionReranker:
    """A Reranker that needs no model but the embedder's. Scores are about 0 to 1."""

    name = "late-interaction"

    def __init__(
        self,
        encoder: LocalEncoder,
        *,
        pace: Pace = nullcontext,
        cache: TokenCache | None = None,
    ) -> None:
        self._encoder = encoder
        self._pace = pace
        self._cache = cache or TokenCache(0)

    def score(
        self, question: str, passages: Sequence[str], words: Sequence[WeightedWord] = ()
    ) -> list[float]:
        """One score a passage, in the order given."""
        if not passages:
            return []
        texts = dict.fromkeys(passages)
        vectors = {text: kept for text in texts if (kept := self._cache.get(text)) is not None}
        missing = [text for text in texts if text not in vectors]
        encodings = self._encoder.tokenize([question, *missing])
        asked, *encoded = self._encoder.embed_tokens(encodings, self._pace)
        for text, tokens in zip(missing, encoded, strict=True):
            # Halves from the start, so that a score is the same the second time.
            vectors[text] = halves = tokens.astype(np.float16)
            self._cache.put(text, halves)
        special = [bool(flag) for flag in encodings[0].special_tokens_mask]
        weights = token_weights(encodings[0].offsets, special, words)
        # Multiplied as float32: numpy has no fast product of halves.
        scores = {
            text: max_sim(asked, weights, tokens.astype(np.float32))
            for text, tokens in vectors.items()
        }
        return [scores[text] for text in passages]
