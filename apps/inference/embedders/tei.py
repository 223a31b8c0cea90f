"""Embedding over the HTTP protocol of text-embeddings-inference (TEI)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from apps.inference import errors
from apps.inference.tei import TeiServer
from apps.inference.transport import Server
from apps.inference.types import Vectors

# Documents wait out an overload; questions do not, someone is waiting for them.
_OVERLOAD_ATTEMPTS = 6


class TeiEmbedder:
    """An Embedder at a TEI server. What it serves is asked on first use, and kept."""

    def __init__(
        self,
        server: Server,
        *,
        query_prompt: str = "",
        document_prompt: str = "",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._tei = TeiServer(server, transport)
        self._query_prompt = query_prompt
        self._document_prompt = document_prompt
        self._dimensions = 0

    @property
    def model_id(self) -> str:
        return self._tei.info.model_id

    @property
    def max_tokens(self) -> int:
        return self._tei.info.max_input_tokens

    @property
    def dimensions(self) -> int:
        """`/info` does not tell it: the first vector does."""
        if not self._dimensions:
            self._dimensions = len(self._embed(["dimensions"])[0])
        return self._dimensions

    def embed_query(self, text: str) -> Vectors:
        """Shape (dimensions,), unit length; sent alone, which servers answer first."""
        vector: Vectors = self._embed([self._query_prompt + text], single=True)[0]
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), unit length; in batches that the server accepts."""
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        patiently = Retrying(
            retry=retry_if_exception_type(errors.Overloaded),
            stop=stop_after_attempt(_OVERLOAD_ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            reraise=True,
        )
        batches = self._tei.batches([self._document_prompt + text for text in texts])
        return np.concatenate([patiently(self._embed_batch, batch) for batch in batches])

    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        try:
            return self._embed(texts)
        except errors.Rejected:
            # 413 up to TEI 1.8, 422 from 1.9: too many for it, or one of them is at fault.
            if len(texts) == 1:
                raise
            half = len(texts) // 2
            return np.concatenate(
                [self._embed_batch(texts[:half]), self._embed_batch(texts[half:])]
            )

    def _embed(self, texts: Sequence[str], *, single: bool = False) -> Vectors:
        inputs: object = self._tei.shorten(texts[0]) if single else [*map(self._tei.shorten, texts)]
        rows: Any = self._tei.post("/embed", {"inputs": inputs, "truncate": True})
        return self._tei.matrix(rows, len(texts))
