"""The gateway's Prometheus gauges: asked of the stores when `/metrics` is, for all processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from django.db import Error as DatabaseFault
from django.db.models import Count, Sum
from prometheus_client.core import REGISTRY, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from apps.gateway.calling import catalogue
from apps.gateway.calling.states import UpstreamState, read_states
from apps.gateway.errors import StoreDown
from apps.gateway.models import Reservation


class StoresCollector(Collector):
    """What the stores know: of all processes together. Nothing of a store that is away."""

    def collect(self) -> Iterator[Metric]:
        yield from _reservations()
        try:
            states = asyncio.run(read_states(catalogue.current()))
        except StoreDown:
            return
        yield from _upstreams(states)

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: registering must not ask a store."""
        return ()


def register() -> None:
    """Have `/metrics` ask the stores too; twice does no harm."""
    REGISTRY.register(_collector)


_collector = StoresCollector()


def _reservations() -> Iterator[Metric]:
    try:
        found = Reservation.objects.aggregate(n=Count("id"), micros=Sum("micros"))
    except DatabaseFault:
        return
    yield _gauge("reservations_open", "Reservations of calls in flight.", found["n"])
    yield _gauge("reserved_micros", "Money that they hold.", found["micros"] or 0)


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(f"ragsite_gateway_{name}", help, value=value)


def _upstreams(states: Iterable[UpstreamState]) -> Iterator[Metric]:
    """What an upstream does not export has no sample, rather than 0."""
    families = {
        name: GaugeMetricFamily(f"ragsite_gateway_upstream_{name}", help, labels=["upstream"])
        for name, help in _OF_UPSTREAMS.items()
    }
    for state in states:
        for name, value in _figures(state).items():
            if value is not None:
                families[name].add_metric([state.upstream.name], value)
    yield from families.values()


_OF_UPSTREAMS = {
    "up": "1 where its health was good when last looked at.",
    "breaker_open": "1 while no calls are sent to it; 0.5 while one is tried.",
    "places_held": "Calls in flight there, over all processes.",
    "places": "The most there may be.",
    "queue": "Requests that it says wait there.",
    "running": "Requests that it says it works on.",
    "kv_used": "Share of its KV cache that it says is in use, 0 to 1.",
}
_BREAKER = {"closed": 0.0, "trial": 0.5, "open": 1.0}


def _figures(state: UpstreamState) -> dict[str, float | None]:
    seen = state.seen
    load = seen.load if seen else None
    return {
        "up": float(seen.well) if seen else None,
        "breaker_open": _BREAKER[state.breaker.state],
        "places_held": state.held,
        "places": state.upstream.max_concurrency,
        "queue": load.queued if load else None,
        "running": load.running if load else None,
        "kv_used": load.kv_used if load else None,
    }
