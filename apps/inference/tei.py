"""What embedder and rerankers share of the TEI protocol (TEI 1.5 to 1.9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx
import numpy as np

from apps.inference import errors
from apps.inference.transport import BlockingClient, Server
from apps.inference.types import Vectors

# Servers refuse bodies over 2,000,000 bytes before they look at them; JSON escapes cost the rest.
BATCH_BYTES = 1_000_000
# No tokenizer in use has words so long on average: what lies beyond is cut by the server anyway.
CHARS_PER_TOKEN_MAX = 64


@dataclass(frozen=True)
class TeiInfo:
    """What `/info` tells about the model served."""

    model_id: str
    max_input_tokens: int
    max_batch_texts: int
    late_interaction: bool  # our own encoder says so; TEI itself has none


class TeiServer:
    """One TEI server, asked for what it serves on first use. Thread-safe."""

    def __init__(self, server: Server, transport: httpx.BaseTransport | None = None) -> None:
        self.server = server
        self._client = BlockingClient(server, transport)

    @cached_property
    def info(self) -> TeiInfo:
        """Raises an InferenceError where the server cannot be asked; then it is asked anew."""
        reply: Any = self._client.get("/info")
        try:
            return TeiInfo(
                model_id=str(reply["model_id"]),
                max_input_tokens=int(reply["max_input_length"]),
                max_batch_texts=int(reply["max_client_batch_size"]),
                late_interaction=bool(reply.get("late_interaction", False)),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as exc:
            raise self.unexpected("/info") from exc

    def post(self, path: str, body: object) -> Any:
        """Decoded JSON of a POST; raises an InferenceError."""
        return self._client.post(path, body)

    def shorten(self, text: str) -> str:
        """`text` without what the model would cut anyway, so that no body grows too large."""
        return text[: self.info.max_input_tokens * CHARS_PER_TOKEN_MAX]

    def batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Runs of `texts` that the server accepts in one request."""
        batch: list[str] = []
        size = 0
        for text in texts:
            text_bytes = len(self.shorten(text).encode())
            full = len(batch) >= self.info.max_batch_texts or size + text_bytes > BATCH_BYTES
            if batch and full:
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += text_bytes
        if batch:
            yield batch

    def matrix(self, rows: Any, count: int) -> Vectors:
        """`rows` of numbers as an array of `count` rows; raises ProtocolError for anything else."""
        try:
            vectors = np.asarray(rows, np.float32)
        except (TypeError, ValueError) as exc:
            raise self.unexpected("its vectors") from exc
        if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
            raise self.unexpected("its vectors")
        return vectors

    def unexpected(self, what: str) -> errors.ProtocolError:
        """The error for a reply that TEI does not give."""
        return errors.ProtocolError(
            f"{self.server.where} answered, but {what} is not as TEI's protocol says. "
            "Check that the address is that of a TEI server."
        )
