"""Jobs for tests, and what comes of them on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from apps.capacity.load.measures import Figures
from apps.capacity.load.running import Point
from apps.capacity.load.targets import Address
from apps.capacity.load.types import Arrivals, Bounds, Job, Lengths, Promises, Target, Workload
from tests.capacity.load import virtual
from tests.capacity.load.double import Double

TARGET = Target(kind="openai", url="http://double.test/v1")


def job(
    kind: str = "poisson",
    load: float = 5.0,
    *,
    duration_s: float = 60.0,
    tokens: int = 5,
    bounds: dict[str, Any] | None = None,
    **more: Any,
) -> Job:
    """Synthetic, of fixed lengths, without a warm-up and a cross-check unless asked for."""
    held = {"duration_s": duration_s, "requests": 100_000, "warmup_requests": 0, **(bounds or {})}
    lengths = {"prompt": Lengths(mean=40), "output": Lengths(mean=tokens)}
    defaults: dict[str, Any] = {
        "target": TARGET,
        "workload": Workload(kind="synthetic", **lengths),
        "arrivals": Arrivals(kind=kind, load=load),
        "bounds": Bounds(**held),
        "promises": Promises(),
        "cross_check": 0,
        "seed": 7,
    }
    return Job(**{**defaults, **more})


def measure(wanted: Job, server: Callable[[], asyncio.Protocol] | Double) -> tuple[Figures, Point]:
    """The point, measured against a server in memory."""
    factory = virtual.paced(server.pacing) if isinstance(server, Double) else server

    async def point() -> tuple[Figures, Point]:
        it = Point(wanted, virtual.dialling(factory), Address.of(TARGET.url), salt="test")
        return await it.run(), it

    return virtual.run(point())
