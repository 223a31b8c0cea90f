"""Embedding in this process, with sentence-transformers on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from apps.inference.local_encoder import LocalEncoder
from apps.inference.types import Vectors


class SentenceTransformersEmbedder:
    """An Embedder over a model that this process has loaded."""

    def __init__(
        self, encoder: LocalEncoder, *, query_prompt: str = "", document_prompt: str = ""
    ) -> None:
        self.encoder = encoder
        self.model_id = encoder.model_id
        self.dimensions = encoder.dimensions
        self.max_tokens = encoder.max_tokens
        self._query_prompt = query_prompt
        self._document_prompt = document_prompt

    def embed_query(self, text: str) -> Vectors:
        """Shape (dimensions,), unit length."""
        encodings = self.encoder.tokenize([self._query_prompt + text])
        vector: Vectors = self.encoder.embed(encodings)[0]
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), unit length."""
        prompted = [self._document_prompt + text for text in texts]
        return self.encoder.embed(self.encoder.tokenize(prompted))
