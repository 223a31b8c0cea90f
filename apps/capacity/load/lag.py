"""How late the generator itself is, and how busy: a late one would measure itself."""

from __future__ import annotations

import asyncio
import resource
from array import array
from dataclasses import dataclass, field
from typing import Self

EVERY_S = 0.01


@dataclass
class Gauge:
    """A timer that should fire every 10 ms, and the process' CPU meanwhile."""

    lags_s: array[float] = field(default_factory=lambda: array("d"))
    cpu_s: float = 0.0
    elapsed_s: float = 0.0
    _timer: asyncio.TimerHandle | None = None
    _due: float = 0.0
    _began: float = 0.0
    _cpu_before: float = 0.0

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._began, self._cpu_before = loop.time(), _cpu_s()
        self._arm(loop)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.elapsed_s = asyncio.get_running_loop().time() - self._began
        self.cpu_s = _cpu_s() - self._cpu_before

    @property
    def cpu_share(self) -> float:
        return self.cpu_s / self.elapsed_s if self.elapsed_s else 0.0

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + EVERY_S
        self._timer = loop.call_at(self._due, self._fire, loop)

    def _fire(self, loop: asyncio.AbstractEventLoop) -> None:
        self.lags_s.append(max(0.0, loop.time() - self._due))
        self._arm(loop)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
