"""From what single searches gave to the figures of a point."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_Z = 1.96  # 95 %


def share_interval(share: float, count: int) -> tuple[float, float]:
    """95 % interval of a mean of `count` shares, each between 0 and 1 (Wilson 1927).

    Shares of whole questions vary most: for recall it is on the safe side, and unlike a
    bootstrap it does not close on 1 where nothing was missed.
    """
    if not count:
        return 0.0, 1.0
    z2 = _Z * _Z / count
    middle = (share + z2 / 2) / (1 + z2)
    half = _Z / (1 + z2) * math.sqrt(share * (1 - share) / count + z2 / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50 and p95, in the unit of `values`."""
    p50, p95 = np.percentile(np.asarray(values, dtype=np.float64), [50, 95])
    return {"p50_ms": round(float(p50), 3), "p95_ms": round(float(p95), 3)}


def vector_figures(samples: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Of rows (recall, recall at 10, rows returned, rows there are, milliseconds)."""
    columns = np.asarray(samples, dtype=np.float64)
    recall, count = float(columns[:, 0].mean()), len(samples)
    low, high = share_interval(recall, count)
    return {
        "recall": round(recall, 4),
        "recall_low": round(low, 4),
        "recall_high": round(high, 4),
        "recall_10": round(float(columns[:, 1].mean()), 4),
        "rows_min": int(columns[:, 2].min()),
        "short": int((columns[:, 2] < columns[:, 3]).sum()),
        "questions": count,
        **percentiles(columns[:, 4].tolist()),
    }


def depth_figures(samples: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Of rows with `ndcg_10`, `recall_10`, `rerank_ms`, `ms` and `degraded`, one a question."""
    from apps.evals.bootstrap import mean_intervals

    metrics = ("ndcg_10", "recall_10")
    values = np.asarray([[row[name] for name in metrics] for row in samples], dtype=np.float64)
    (low, high), _ = mean_intervals(values)
    rerank = percentiles([row["rerank_ms"] for row in samples])
    return {
        "ndcg_10": round(float(values[:, 0].mean()), 4),
        "ndcg_10_low": round(low, 4),
        "ndcg_10_high": round(high, 4),
        "recall_10": round(float(values[:, 1].mean()), 4),
        "questions": len(samples),
        "degraded": int(sum(row["degraded"] for row in samples)),
        "rerank_p50_ms": rerank["p50_ms"],
        "rerank_p95_ms": rerank["p95_ms"],
        **percentiles([row["ms"] for row in samples]),
    }
