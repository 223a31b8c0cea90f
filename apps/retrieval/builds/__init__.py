"""Changing the embedding model, or how passages are cut: another index, built beside the first.

Started, built by a worker, compared, put in force in one step, kept for the way back, dropped.
"""

from apps.retrieval.builds.controls import (
    cancel_build,
    compare_again,
    drop_now,
    pause_build,
    resume_build,
    throttle_build,
)
from apps.retrieval.builds.starting import start_build
from apps.retrieval.builds.switching import switch, switch_back
from apps.retrieval.builds.tending import tend_next

__all__ = [
    "cancel_build",
    "compare_again",
    "drop_now",
    "pause_build",
    "resume_build",
    "start_build",
    "switch",
    "switch_back",
    "tend_next",
    "throttle_build",
]
