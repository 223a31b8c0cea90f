"""One call to a model, at whichever upstream can take it.

An upstream is chosen by load among the healthy. What fails before the first token has been shown
is tried elsewhere; after it, the error goes to the caller.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.gateway.types import Model, Usage
from apps.inference.types import GenerationEvent, GenerationRequest


@dataclass
class CallReport:
    """What became of a call so far; filled as it goes, so that a broken-off call has it too."""

    upstream: str = ""
    upstream_model: str = ""
    queue_ms: float = 0.0
    attempts: int = 0


@dataclass(frozen=True)
class Embedded:
    vectors: npt.NDArray[np.float32]  # (texts, dimensions)
    usage: Usage


@dataclass(frozen=True)
class Scored:
    scores: list[float]  # one a text, in the order given; higher is better
    usage: Usage


async def generate(
    model: Model, request: GenerationRequest, report: CallReport
) -> AsyncGenerator[GenerationEvent, None]:
    """TextDelta and the like, then one Finished. Closing the iterator closes the upstream.

    Raises NoUpstream, StoreDown or the upstream's InferenceError.
    """
    raise NotImplementedError
    yield


async def embed(model: Model, texts: Sequence[str], report: CallReport) -> Embedded:
    """The texts' vectors. Raises like `generate`."""
    raise NotImplementedError


async def rerank(model: Model, query: str, texts: Sequence[str], report: CallReport) -> Scored:
    """The texts' scores against the query. Raises like `generate`."""
    raise NotImplementedError
