"""The process's Prometheus metrics."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

HOP_SECONDS = Histogram(
    "ragsite_hop_seconds",
    "Work time of each hop.",
    ["kind", "hop", "status"],
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
)

SHORT_SEARCHES = Counter(
    "ragsite_short_searches",
    "Searches whose HNSW plan found fewer rows than there were, and that were made again exactly.",
)
