"""What may go wrong here.

CapacityError
├── CatalogueError        a model, a GPU or a price that cannot be right
├── PlanInvalid           a plan's input that cannot be computed with
└── LoadTestError
    ├── TargetRefused     a host that was not asked for by name, or no address
    ├── WorkloadInvalid   lengths, a trace or arrivals that cannot be made
    ├── LoadTestRunning   one is under way already
    └── TargetDown        the server does not answer
"""

from __future__ import annotations


class CapacityError(Exception):
    """The root; `str()` says what failed, on what, and what to do."""

    code = "capacity_error"
    retryable = False


class CatalogueError(CapacityError):
    code = "catalogue_error"


class PlanInvalid(CapacityError):
    code = "plan_invalid"


class LoadTestError(CapacityError):
    code = "load_test_error"


class TargetRefused(LoadTestError):
    code = "target_refused"


class WorkloadInvalid(LoadTestError):
    code = "workload_invalid"


class LoadTestRunning(LoadTestError):
    code = "load_test_running"


class TargetDown(LoadTestError):
    code = "target_down"
    retryable = True
