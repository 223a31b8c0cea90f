"""An embedding model in this process: text vectors, and token vectors for late interaction.

Needs torch, and sentence-transformers for models other than plain BERTs; importing this module
loads neither, creating a LocalEncoder does.
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
    import torch
    from tokenizers import Encoding, Tokenizer

    from apps.inference.bert import Bert
    from apps.inference.sentence_model import SentenceModel

# Texts in one step of the model. Measured on 2 cores: 8 texts of like length run faster than 32
# (less padding, better in the cache), and a question waits for one step at most.
STEP_TEXTS = 8
# Steps are this many tokens long, or a multiple: torch compiles its kernels for every shape it
# meets and keeps them. Measured over 1,500 texts of all lengths: 120 MiB more instead of 500, and
# still growing, at the same speed.
STEP_TOKENS = 16
# bf16 takes 0.4 of fp32's time where the CPU multiplies it in hardware (measured with
# avx512_bf16, one thread: 69 passages a second against 27); elsewhere it is slower than fp32.
_FAST_BF16 = {"amx_bf16", "avx512_bf16"}

# Surrounds each step of the model; a process that serves several callers waits for its turn there.
Pace = Callable[[], AbstractContextManager[object]]


class LocalEncoder:
    """A sentence-transformers model on the CPU. `embed` and `embed_tokens` are thread-safe."""

    def __init__(self, name: str, *, threads: int = 0, dtype: str = "auto") -> None:
        """`dtype`: `float32`, `bfloat16`, or `auto` for the faster one on this CPU."""
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import torch

        torch.set_num_threads(threads or max(1, (os.cpu_count() or 2) - 1))
        self._torch = torch
        self.model_id = name
        self.dtype = fast_dtype() if dtype == "auto" else dtype
        self._model = _load(name, getattr(torch, self.dtype))
        self.tokenizer: Tokenizer = self._model.tokenizer
        self.dimensions = self._model.dimensions
        self.max_tokens = self._model.max_tokens

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
                texts, _ = self._forward(step)
            vectors[rows] = unit(texts.float().numpy())
        return vectors

    def embed_tokens(
        self, encodings: Sequence[Encoding], pace: Pace = nullcontext
    ) -> list[Vectors]:
        """One unit vector a token, shape (tokens, dimensions) for each, special ones included."""
        vectors: list[Vectors] = [np.zeros((0, self.dimensions), np.float32)] * len(encodings)
        for rows, step in _steps(encodings):
            with pace():
                _, tokens = self._forward(step)
            units = unit(tokens.float().numpy())
            for row, encoding, vector in zip(rows, step, units, strict=True):
                vectors[row] = vector[: len(encoding.ids)]
        return vectors

    def _forward(self, step: Sequence[Encoding]) -> tuple[Any, Any]:
        torch = self._torch
        longest = max(len(encoding.ids) for encoding in step)
        padded = min(-(-longest // STEP_TOKENS) * STEP_TOKENS, max(longest, self.max_tokens))
        ids = np.zeros((len(step), padded), np.int64)
        mask = np.zeros((len(step), padded), np.int64)
        for row, encoding in enumerate(step):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        with torch.inference_mode():
            return self._model(torch.from_numpy(ids), torch.from_numpy(mask))


def _load(name: str, dtype: torch.dtype) -> Bert | SentenceModel:
    from apps.inference.bert import Bert, can_run

    folder = Path(locate_model(name))
    if can_run(folder):
        return Bert(folder, dtype)
    from apps.inference.sentence_model import SentenceModel

    return SentenceModel(name, dtype)


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
