"""A server's own counters, before and after: Prometheus text with names that differ and drift.

The names are those of serving.md's table of metrics: the first of a list that is there counts.
What a server does not export is left out, rather than called 0.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Mapping

from apps.capacity.errors import TargetRefused
from apps.capacity.load.answers import Body
from apps.capacity.load.targets import Address, Api, dialling
from apps.capacity.load.wire import Server

TIMEOUT_S = 5.0
_LINE = re.compile(rb"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{[^}]*\})?\s+(\S+)")

# What grew, under one name for all servers.
_GROWN = {
    "prompt_tokens": (
        "vllm:prompt_tokens_total",
        "sglang:prompt_tokens_total",
        "llamacpp:prompt_tokens_total",  # those that it had to read: cached ones are left out
        "tgi_request_input_length_sum",
    ),
    "output_tokens": (
        "vllm:generation_tokens_total",
        "sglang:generation_tokens_total",
        "llamacpp:tokens_predicted_total",
        "tgi_request_generated_tokens_sum",
    ),
    "prefix_queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_hits": (
        "vllm:prefix_cache_hits_total",
        "vllm:gpu_prefix_cache_hits_total",
        "sglang:cached_tokens_total",
    ),
    "queue_s": (
        "vllm:request_queue_time_seconds_sum",
        "sglang:queue_time_seconds_sum",
        "tgi_request_queue_duration_sum",
    ),
    "queued": (
        "vllm:request_queue_time_seconds_count",
        "sglang:queue_time_seconds_count",
        "tgi_request_queue_duration_count",
    ),
    "preemptions": ("vllm:num_preemptions_total", "sglang:num_retracted_requests_total"),
    "prefill_s": ("llamacpp:prompt_seconds_total",),
    "decode_s": ("llamacpp:tokens_predicted_seconds_total",),
    "decode_steps": ("llamacpp:n_decode_total",),
}

Counters = Mapping[str, float]


class Watch:
    """Reads `metrics_url`; never more than TIMEOUT_S, and never a reason to fail."""

    def __init__(self, api: Api) -> None:
        self._server: Server | None = None
        try:
            address = Address.of(api.job.target.metrics_url)
        except TargetRefused:
            return
        same = (address.is_secure, address.host, address.port)
        own = (api.address.is_secure, api.address.host, api.address.port)
        key = api.key if same == own else ""  # nobody else is told of it
        self._server = Server(dialling(address))
        self._request = Api(api.job, address, key).request("GET", address.path)

    async def read(self) -> Counters:
        """All counters by name, summed over their labels; {} where there is nothing to read."""
        if self._server is None:
            return {}
        body = Body()
        until = asyncio.get_running_loop().time() + TIMEOUT_S
        code = await self._server.ask(self._request, body, until=until)
        return {} if code or body.status != 200 else parse(bytes(body.content))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


def parse(text: bytes) -> Counters:
    """Values by name, summed over labels. Lines that are no sample are left aside."""
    sums: defaultdict[str, float] = defaultdict(float)
    for line in text.splitlines():
        if found := _LINE.match(line):
            try:
                value = float(found[2])
            except ValueError:
                continue
            if math.isfinite(value):
                sums[found[1].decode()] += value
    return dict(sums)


def grown(before: Counters, after: Counters) -> dict[str, float]:
    """What the server counted meanwhile: tokens, seconds; `prefix_hit_share`, `queue_mean_ms`."""
    told: dict[str, float] = {}
    for name, aliases in _GROWN.items():
        alias = next((each for each in aliases if each in after), None)
        if alias is not None and (by := after[alias] - before.get(alias, 0.0)) >= 0:
            told[name] = by
    if told.get("prefix_queries"):
        told["prefix_hit_share"] = told.get("prefix_hits", 0.0) / told["prefix_queries"]
    if told.get("queued"):
        told["queue_mean_ms"] = 1000 * told.get("queue_s", 0.0) / told["queued"]
    return told
