"""A sentence-transformers cross-encoder, in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence

from apps.inference.local_encoder import fast_dtype
from apps.inference.model_files import locate_model
from apps.inference.types import WeightedWord

_BATCH_PAIRS = 8


class CrossEncoderReranker:
    """A Reranker that reads question and passage together. Scores are the model's logits."""

    name = "cross-encoder"

    def __init__(self, model: str, *, threads: int = 0) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import torch
        from sentence_transformers import CrossEncoder

        torch.set_num_threads(threads or max(1, (os.cpu_count() or 2) - 1))
        self._model = CrossEncoder(
            locate_model(model),
            device="cpu",
            activation_fn=torch.nn.Identity(),  # a sigmoid would flatten the best scores
            model_kwargs={"dtype": getattr(torch, fast_dtype())},
        )

    def score(
        self, question: str, passages: Sequence[str], words: Sequence[WeightedWord] = ()
    ) -> list[float]:
        """One logit a passage, in the order given; `words` have no part in it."""
        if not passages:
            return []
        pairs = [(question, passage) for passage in passages]
        logits = self._model.predict(pairs, batch_size=_BATCH_PAIRS, show_progress_bar=False)
        return [float(logit) for logit in logits]
