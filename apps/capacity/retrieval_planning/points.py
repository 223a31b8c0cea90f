"""What was measured at one size."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self


@dataclass(frozen=True)
class Point:
    """Searches of a corpus of `passages`, one after another, nothing else asked meanwhile."""

    kind: Literal["exact", "hnsw"]
    passages: int
    searches: int  # the count behind the percentiles
    p50_ms: float
    p95_ms: float
    mean_ms: float
    cpu_ms: float | None = None  # of the database's process, a search; None: not on this machine
    # hnsw only:
    ef_search: int | None = None
    m: int | None = None
    ef_construction: int | None = None
    recall: float | None = None  # mean recall@k against exact search of the same table
    recall_low: float | None = None  # 95 % interval
    recall_high: float | None = None
    k: int | None = None
    build_s: float | None = None
    size_bytes: int | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, row: dict[str, Any]) -> Self:
        return cls(**row)
