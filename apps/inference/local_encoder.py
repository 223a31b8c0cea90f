"""An embedding model in this process: text vectors, and token vectors for late interaction.

Needs torch and sentence-transformers; importing this module does not, creating a LocalEncoder does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from apps.inference.maxsim import unit
from apps.inference.model_files import locate_model
from apps.inference.types import Vectors

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

# Texts in one step of the model. Measured on 2 cores: 8 texts of like length run faster than 32
# (less padding, better in the cache), and a question waits for one step at most.
STEP_TEXTS = 8
# bf16 halves the time where the CPU multiplies it in hardware; elsewhere it is slower than fp32.
_FAST_BF16 = {"amx_bf16", "avx512_bf16"}

# Surrounds each step of the model; a process that serves several callers waits for its turn there.
Pace = Callable[[], AbstractContextManager[object]]


class LocalEncoder:
    """A sentence-transformers model on the CPU. `embed` and `embed_tokens` are thread-safe."""

    def __init__(self, name: str, *, threads: int = 0) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(threads or max(1, (os.cpu_count() or 2) - 1))
        self._torch = torch
        self.dtype = fast_dtype()
        self._model = SentenceTransformer(
            locate_model(name), device="cpu", model_kwargs={"dtype": getattr(torch, self.dtype)}
        ).eval()
        self.model_id = name
        self.dimensions = int(self._model.get_embedding_dimension() or 0)
        self.max_tokens = int(self._model.max_seq_length or 512)
        self.tokenizer: Tokenizer = self._model.tokenizer.backend_tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def tokenize(self, texts: Sequence[str]) -> list[Encoding]:
        """Tokens with character offsets, special ones included, cut to the model's length."""
        return [
            encoding if len(encoding.ids) <= self.max_tokens else self._tokenize_start(text)
            for text, encoding in zip(texts, self.tokenizer.encode_batch(list(texts)), strict=True)
        ]

    def _tokenize_start(self, text: str) -> Encoding:
        # Cut before the special tokens are added, so that the closing one is not lost.
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        encoding.truncate(self.max_tokens - self.tokenizer.num_special_tokens_to_add(False))
        return self.tokenizer.post_process(encoding)

    def embed(self, encodings: Sequence[Encoding], pace: Pace = nullcontext) -> Vectors:
        """Unit vectors, shape (len(encodings), dimensions). `pace` surrounds each step."""
        vectors = np.zeros((len(encodings), self.dimensions), np.float32)
        for rows, step in _steps(encodings):
            with pace():
                output = self._forward(step)["sentence_embedding"]
            vectors[rows] = unit(output.float().numpy())
        return vectors

    def embed_tokens(
        self, encodings: Sequence[Encoding], pace: Pace = nullcontext
    ) -> list[Vectors]:
        """One unit vector a token, shape (tokens, dimensions) for each, special ones included."""
        vectors: list[Vectors] = [np.zeros((0, self.dimensions), np.float32)] * len(encodings)
        for rows, step in _steps(encodings):
            with pace():
                output = self._forward(step)["token_embeddings"]
            tokens = unit(output.float().numpy())
            for row, encoding, vector in zip(rows, step, tokens, strict=True):
                vectors[row] = vector[: len(encoding.ids)]
        return vectors

    def _forward(self, step: Sequence[Encoding]) -> dict[str, Any]:
        torch = self._torch
        longest = max(len(encoding.ids) for encoding in step)
        ids = np.full((len(step), longest), self._model.tokenizer.pad_token_id or 0, np.int64)
        mask = np.zeros((len(step), longest), np.int64)
        for row, encoding in enumerate(step):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        features = {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask),
            "modality": "text",
        }
        with torch.inference_mode():
            output: dict[str, Any] = self._model(features)
        return output


def _steps(encodings: Sequence[Encoding]) -> Iterator[tuple[list[int], list[Encoding]]]:
    """Rows and encodings of each step, shortest first: texts of like length pad little."""
    order = sorted(range(len(encodings)), key=lambda row: len(encodings[row].ids))
    for start in range(0, len(order), STEP_TEXTS):
        rows = order[start : start + STEP_TEXTS]
        yield rows, [encodings[row] for row in rows]


def fast_dtype() -> str:
    """The number format in which this CPU multiplies fastest, as torch names it."""
    return "bfloat16" if _cpu_flags() & _FAST_BF16 else "float32"


def _cpu_flags() -> set[str]:
    """Instruction sets as Linux names them; empty where it cannot be told."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())
