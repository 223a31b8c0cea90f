"""What can go wrong with a curve, below `apps.evals.errors.EvalsError`.

TuningError
├── GridInvalid          values that cannot be searched with, or too many of them
├── GoalInvalid          a recall goal or depth that cannot be asked for
├── NothingToTune        the tenant has no passages yet
├── CurveRunning         the tenant has one under way already
├── CurveUnfinished      it proposes nothing before it has ended
├── CurveStale           measured on an embedding index that is not in force any more
└── PointUnknown         the curve has no such point to search by
"""

from __future__ import annotations

from apps.evals.errors import EvalsError


class TuningError(EvalsError):
    code = "tuning_error"


class GridInvalid(TuningError):
    code = "grid_invalid"


class GoalInvalid(TuningError):
    code = "goal_invalid"


class NothingToTune(TuningError):
    code = "nothing_to_tune"

    def __init__(self) -> None:
        super().__init__(
            "There is nothing to search yet. Add documents, and wait until one is ready."
        )


class CurveRunning(TuningError):
    code = "curve_running"

    def __init__(self) -> None:
        super().__init__(
            "A curve is being measured already. Wait until it has ended, or cancel it."
        )


class CurveUnfinished(TuningError):
    code = "curve_unfinished"

    def __init__(self) -> None:
        super().__init__("This curve has not ended: there is nothing to apply.")


class CurveStale(TuningError):
    code = "curve_stale"

    def __init__(self) -> None:
        super().__init__(
            "The embedding index was changed since this curve was measured. Measure another one."
        )


class PointUnknown(TuningError):
    code = "point_unknown"

    def __init__(self) -> None:
        super().__init__("This curve has no such setting to apply. Open it again.")
