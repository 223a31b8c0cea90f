"""How long a plan takes and how many requests it sends, before it begins."""

from __future__ import annotations

from dataclasses import dataclass

from apps.capacity.loadtests.plan import Plan
from apps.capacity.loadtests.steps import expected_points, most_seconds

# Of a point beside its duration: the warm-up, and the last requests' ends. Usual, not a bound.
_AROUND_S = 5.0


@dataclass(frozen=True)
class Estimate:
    """`about_…` is what a plan like this usually takes; `most_…` what it cannot go beyond.

    Requests of closed loops depend on how fast the server is: about_requests is None then.
    """

    about_points: int
    about_s: float
    most_s: float
    about_requests: int | None
    most_requests: int

    @property
    def is_cut(self) -> bool:
        """Whether the usual time does not fit into what is given."""
        return self.about_s > self.most_s


def estimate(plan: Plan) -> Estimate:
    """Before anything is measured."""
    points = expected_points(plan, [])
    return Estimate(
        about_points=points,
        about_s=points * (plan.bounds.duration_s + _AROUND_S),
        most_s=most_seconds(plan),
        about_requests=_requests(plan, points),
        most_requests=plan.most_requests,
    )


def _requests(plan: Plan, points: int) -> int | None:
    if plan.arrivals in ("closed", "trace"):
        return None
    bounds = plan.bounds
    of_loads = [min(load * bounds.duration_s, bounds.requests) for load in plan.loads]
    each = sum(of_loads) / len(of_loads) + bounds.warmup_requests
    return min(round(points * each), plan.most_requests)
