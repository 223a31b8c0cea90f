"""What a request has reserved, and what its calls used of it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from apps.gateway.admission import budgets
from apps.gateway.admission.budgets import Hold, Settlement, tokens_counted
from apps.gateway.admission.endings import start, waited_for
from apps.gateway.admission.worst import WorstCase
from apps.gateway.errors import StoreDown
from apps.gateway.types import Call, Caller
from apps.tenants.aio import in_thread
from apps.tenants.limits import LimitRule

if TYPE_CHECKING:
    from apps.gateway.admission.admission import Admission

T = TypeVar("T")
logger = logging.getLogger(__name__)

# How long an answer's end waits for its booking, which goes on if it takes longer.
_PATIENCE_S = 5.0
# While PostgreSQL is away: for ten minutes, then what the sweeper finds noted must do.
_PAUSES_S = (0.1, 0.3, 1.0, 2.0, *(5.0,) * 120)


class Budget:
    """Reserved money and tokens; what calls used is settled against them."""

    def __init__(self, admission: Admission, worst: WorstCase) -> None:
        self.admission = admission
        self.worst = worst
        self.spent_micros = 0
        self.spent_tokens = 0  # of those that limits count
        # Tells of the call in flight as it stands, None where there is nothing to tell yet: booked
        # from what this last told if the process dies. Asked with each renewal, every 5 s.
        self.in_flight: Callable[[], Call | None] | None = None
        self._hold: Hold | None = None
        self._lost_is_left_out = False
        self._unbooked = False
        self._released = False
        # Settling, renewing and releasing come one after another.
        self._in_order = asyncio.Lock()

    async def reserve(self, rules: Sequence[LimitRule]) -> None:
        """Raises BudgetExceeded or StoreDown."""
        self._hold = await in_thread(
            budgets.reserve, self.admission.caller, self.admission.id, self.worst, rules
        )

    async def settle(self, call: Call) -> int:
        """Book a call that has ended: a ledger row and the counters, or neither.

        The micros it cost. A cancelled caller may come here only after the release: booked all
        the same. It is carried through even where the caller is cancelled. While
        PostgreSQL is away this waits for 5 s and returns 0; the booking itself is tried for ten
        minutes, and after that left to the sweeper.
        """
        self.in_flight = None  # at once: the next call may come before this one is booked
        self.spent_tokens += tokens_counted(call)
        task = start(self._settle(call))
        if await waited_for(task, _PATIENCE_S):
            return task.result()
        logger.warning("request %s: a call waits to be booked", self.admission.id)
        return 0

    async def renew(self) -> None:
        """Hold the reservation for another lease, with the call in flight. Raises StoreDown."""
        if self._hold is None or self._released or self._in_order.locked():
            return  # it is being settled or released
        async with self._in_order:
            call = self.in_flight() if self.in_flight else None
            await in_thread(budgets.renew, self._hold, call)

    async def release(self) -> None:
        """Give back what is still reserved, once whatever is being settled has been."""
        async with self._in_order:
            self._released = True
            if self._hold is None or self._unbooked:
                return  # what could not be booked is left to the sweeper, with its reservation
            try:
                await in_thread(budgets.release, self._hold.id)
            except StoreDown:
                logger.warning("request %s: its reservation waits to be swept", self.admission.id)

    async def _settle(self, call: Call) -> int:
        async with self._in_order:
            hold = self._hold
            if hold is None:
                raise RuntimeError("a call was settled without a reservation")
            settlement = Settlement(call, lost_is_left_out=self._lost_is_left_out)
            try:
                cost = await _carried_through(partial(budgets.settle, hold, settlement))
            except Exception as exc:
                self._unbooked = True
                kind = type(exc).__name__
                logger.error("request %s: a call was not booked: %s", self.admission.id, kind)
                raise
            self._lost_is_left_out |= settlement.was_swept
            self.spent_micros += cost
            return cost


async def book_unspent(caller: Caller, request_id: uuid.UUID, call: Call) -> None:
    """A ledger row for a call that spends nothing; carried through like a settlement."""
    step = partial(budgets.book_unspent, caller, request_id, Settlement(call))
    task = start(_carried_through(step))
    if await waited_for(task, _PATIENCE_S):
        task.result()
    else:
        logger.warning("request %s: a call waits to be booked", request_id)


async def _carried_through(step: Callable[[], T]) -> T:
    for pause_s in _PAUSES_S:
        try:
            return await in_thread(step)
        except StoreDown:
            await asyncio.sleep(pause_s)
    return await in_thread(step)
