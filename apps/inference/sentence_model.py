"""Any other sentence-transformers model, run by sentence-transformers itself."""

from __future__ import annotations

import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from apps.inference.model_files import locate_model


class SentenceModel:
    """A model in memory. Call it with token ids and mask, both of shape (texts, tokens)."""

    def __init__(self, name: str, dtype: torch.dtype) -> None:
        self._model = SentenceTransformer(
            locate_model(name), device="cpu", model_kwargs={"dtype": dtype}
        ).eval()
        self.dimensions = int(self._model.get_embedding_dimension() or 0)
        self.max_tokens = int(self._model.max_seq_length or 512)
        self.tokenizer: Tokenizer = self._model.tokenizer.backend_tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def __call__(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Text vectors (texts, dimensions) and token vectors (texts, tokens, dimensions)."""
        output = self._model({"input_ids": ids, "attention_mask": mask, "modality": "text"})
        return output["sentence_embedding"], output["token_embeddings"]
