"""What can go wrong with how a tenant is searched.

RetrievalError
├── AnnBuildFailed       an HNSW index could not be built; it is tried again
├── ProfileInvalid       a knob of search has a value that it cannot have
└── ProfileUnknown       the tenant has no such search profile
"""

from __future__ import annotations


class RetrievalError(Exception):
    """`str()` says what failed and what to do, in words for a person."""

    code = "retrieval_error"
    retryable = False


class AnnBuildFailed(RetrievalError):
    code = "ann_build_failed"
    retryable = True

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The index for large tenants could not be built ({reason}). It is tried again in a "
            "quarter of an hour; PostgreSQL's log says more."
        )


class ProfileInvalid(RetrievalError):
    code = "profile_invalid"


class ProfileUnknown(RetrievalError):
    code = "profile_unknown"

    def __init__(self) -> None:
        super().__init__("There is no such search profile. Open the list again.")
