"""What comes of a call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.gateway.types import Usage


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
