"""How long a search waits for a core, from the load: a bound, not a measurement.

M/M/c: searches come at random and take times that vary as much as exponential ones do. Real ones
vary less, so they wait less. (Erlang 1917; Kleinrock, Queueing Systems I, 1975, section 3.5.)
"""

from __future__ import annotations

import math


def busy_share(*, per_s: float, service_s: float, cores: int) -> float:
    """Utilisation: arrivals a second × seconds of a core each / cores."""
    return per_s * service_s / cores


def waits_share(*, per_s: float, service_s: float, cores: int) -> float:
    """Erlang's C: the share of searches that find every core taken; 1 at or above saturation."""
    offered = per_s * service_s
    if offered >= cores:
        return 1.0
    # Erlang's B by its recursion, which does not overflow: B(n) = aB / (n + aB).
    blocked = 1.0
    for servers in range(1, cores + 1):
        blocked = offered * blocked / (servers + offered * blocked)
    share = offered / cores
    return blocked / (1 - share + share * blocked)


def wait_p95_s(*, per_s: float, service_s: float, cores: int) -> float:
    """What 95 % of searches wait at most; infinite at or above saturation."""
    if per_s * service_s >= cores:
        return math.inf
    waiting = waits_share(per_s=per_s, service_s=service_s, cores=cores)
    if waiting <= 0.05:
        return 0.0
    return math.log(waiting / 0.05) / (cores / service_s - per_s)


def most_per_s(
    *, service_s: float, cores: int, p95_s: float, promise_s: float, busy_most: float
) -> float:
    """The highest load at which p95 + p95 of the wait keeps the promise, and no core is busier
    than `busy_most` on average. 0 where not even a lone search keeps it."""
    if p95_s > promise_s or service_s <= 0:
        return 0.0
    low, high = 0.0, busy_most * cores / service_s
    for _ in range(60):
        middle = (low + high) / 2
        wait = wait_p95_s(per_s=middle, service_s=service_s, cores=cores)
        low, high = (middle, high) if p95_s + wait <= promise_s else (low, middle)
    return low
