"""What servers export of their load, under whatever names: the first of each list that is there.

The names drift between servers and versions (vLLM, SGLang, llama.cpp, TGI, TEI). Absent is None,
which is not the same as nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

_QUEUED = (
    "vllm:num_requests_waiting",
    "sglang:num_queue_reqs",
    "llamacpp:requests_deferred",
    "tgi_queue_size",
    "te_queue_size",
)
_RUNNING = (
    "vllm:num_requests_running",
    "sglang:num_running_reqs",
    "llamacpp:requests_processing",
    "tgi_batch_current_size",
)
_KV_USED = (
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "sglang:token_usage",
    "llamacpp:kv_cache_usage_ratio",
)


@dataclass(frozen=True)
class Exported:
    """None: not exported."""

    queued: float | None = None  # requests that wait at the server
    running: float | None = None  # requests in its batch
    kv_used: float | None = None  # 0 to 1

    @property
    def kv_percent(self) -> int | None:
        return None if self.kv_used is None else round(100 * self.kv_used)


def read_metrics(text: str) -> Exported:
    """Figures out of Prometheus text; raises ValueError for what is none."""
    samples: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(float(sample.value))
    return Exported(
        # One sample an engine or rank: requests add up, the fullest cache is the one that counts.
        queued=_total(samples, _QUEUED),
        running=_total(samples, _RUNNING),
        kv_used=max(_first(samples, _KV_USED), default=None),
    )


def _first(samples: dict[str, list[float]], names: Sequence[str]) -> list[float]:
    found = next((samples[name] for name in names if name in samples), [])
    return [value for value in found if 0 <= value < float("inf")]  # a gauge may be NaN


def _total(samples: dict[str, list[float]], names: Sequence[str]) -> float | None:
    found = _first(samples, names)
    return sum(found) if found else None
