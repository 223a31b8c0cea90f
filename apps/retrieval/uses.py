"""Noting what models were used for a search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Literal

from apps.inference.errors import InferenceError
from apps.telemetry.hops import Hop, ModelUse


@contextmanager
def counted(hop: Hop, kind: Literal["embed", "rerank"], model: str, tokens: int) -> Iterator[None]:
    """Note the use of a model, whether it answered or not; `tokens` as counted here, 0: none."""
    start = perf_counter()
    error_code = ""
    try:
        yield
    except InferenceError as exc:
        tokens, error_code = 0, exc.code
        raise
    finally:
        if tokens or error_code:
            total_ms = (perf_counter() - start) * 1000
            hop.used(ModelUse(kind, model, tokens, total_ms, error_code=error_code))
