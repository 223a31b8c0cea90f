"""A request that was let in, and what it may spend."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from apps.gateway.types import Call, Caller, Outcome


@dataclass(frozen=True)
class WorstCase:
    """The most that a request may use, over all its calls."""

    micros: int
    tokens: int  # that language models read and write


class Budget:
    """Reserved money and tokens; what calls used is settled against them."""

    def __init__(self, admission: Admission, worst: WorstCase) -> None:
        self.admission = admission
        self.worst = worst
        self.spent_micros = 0

    def note(self, call: Call) -> None:
        """Remember the call in flight as it stands: booked from this if the process dies."""
        raise NotImplementedError

    async def settle(self, call: Call) -> int:
        """Book a call that has ended: a ledger row and the counters, in one transaction.

        The micros it cost. Returns whatever happened to the reservation meanwhile.
        """
        raise NotImplementedError


class Admission:
    """One request that the limits have let in."""

    def __init__(self, caller: Caller, request_id: uuid.UUID) -> None:
        self.caller = caller
        self.id = request_id
        # x-ratelimit-limit-requests, -remaining-requests, -reset-requests and the same of tokens.
        self.headers: Mapping[str, str] = {}
        # What a call that is broken off from outside ends as.
        self.broken_off_as = Outcome.STOPPED

    @asynccontextmanager
    async def reserved(self, worst: WorstCase) -> AsyncIterator[Budget]:
        """Reserve the worst case; raises RateLimited, BudgetExceeded or StoreDown.

        Leaving the block releases what was not used, however it is left.
        """
        raise NotImplementedError
        yield Budget(self, worst)

    async def book(self, call: Call) -> None:
        """A ledger row for a call that spends nothing: a cached answer."""
        raise NotImplementedError


@asynccontextmanager
async def admitted(
    caller: Caller, *, request_id: uuid.UUID | None = None
) -> AsyncIterator[Admission]:
    """Let a request in, or raise RateLimited or StoreDown."""
    raise NotImplementedError
    yield Admission(caller, request_id or uuid.uuid4())
