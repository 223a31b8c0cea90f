"""A request that was let in, and what it may spend."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from time import perf_counter

from apps.gateway.admission import rates
from apps.gateway.admission.budget import Budget, book_unspent
from apps.gateway.admission.endings import start, taken, waited_for
from apps.gateway.admission.rates import Rate, Taken
from apps.gateway.admission.refusals import headers_of, rate_limited
from apps.gateway.admission.rules import epoch_key, kept_rules, read_rules
from apps.gateway.admission.worst import WorstCase
from apps.gateway.errors import Limited, StoreDown
from apps.gateway.metrics import count_refusal
from apps.gateway.spans import export_step
from apps.gateway.types import Call, Caller, Outcome
from apps.tenants.limits import LimitRule
from apps.tenants.models import Measure

logger = logging.getLogger(__name__)

# A sixth of a place's lease and a twelfth of a reservation's: some may fail.
_RENEW_EVERY_S = 5.0
# For Redis and for PostgreSQL; then the request is refused, or what it held left to its lease.
_PATIENCE_S = 5.0
# A request's own, and a look at the tokens for the headers.
_AT_ADMISSION = {
    Measure.REQUESTS_PER_MINUTE: 1,
    Measure.CONCURRENT_CALLS: 1,
    Measure.TOKENS_PER_MINUTE: 0,
}


class Admission:
    """One request that the limits have let in."""

    def __init__(self, caller: Caller, request_id: uuid.UUID) -> None:
        self.caller = caller
        self.id = request_id
        # x-ratelimit-limit-requests, -remaining-requests, -reset-requests and the same of tokens.
        self.headers: Mapping[str, str] = {}
        # What a call that is broken off from outside ends as.
        self.broken_off_as = Outcome.STOPPED
        self._rules: tuple[LimitRule, ...] = ()
        self._rates: tuple[Rate, ...] = ()
        # Reservations that have ended, and the tokens that were taken for them.
        self._ended: list[tuple[Budget, tuple[Rate, ...]]] = []
        self._place = uuid.uuid4().hex  # not the request's id, which may be another's too
        self._budgets: set[Budget] = set()  # in force
        self._reserved: list[Budget] = []  # these, and those that have ended
        self._refused = False
        self._has_left = False
        self._renewing = asyncio.Lock()
        self._renewals: asyncio.Task[None] | None = None

    @property
    def spent_micros(self) -> int:
        """What the calls that have been booked cost, of every reservation."""
        return sum(budget.spent_micros for budget in self._reserved)

    @asynccontextmanager
    async def reserved(self, worst: WorstCase) -> AsyncIterator[Budget]:
        """Reserve the worst case; raises RateLimited, BudgetExceeded or StoreDown.

        Leaving the block releases the money that was not used, however it is left; the minute's
        tokens go back with the place, in one script. BadRequest: more than can be counted.
        """
        worst.check()
        try:
            tokens = await self._take_tokens(worst)
            budget = await self._reserve(worst, tokens)
        except (Limited, StoreDown) as exc:
            self._refused = True
            count_refusal(self.caller.source, exc.code)
            raise
        self._budgets.add(budget)
        self._reserved.append(budget)
        try:
            yield budget
        finally:
            self._budgets.discard(budget)
            self._stop_renewing()
            self._ended.append((budget, tokens))
            await waited_for(start(budget.release()), _PATIENCE_S)
            if self._has_left:
                await waited_for(start(self._give_back(self._unused_tokens())), _PATIENCE_S)

    async def book(self, call: Call) -> None:
        """A ledger row for a call that spends nothing: a cached answer."""
        await book_unspent(self.caller, self.id, call)

    async def enter(self) -> None:
        """Take a request and a place; raises RateLimited or StoreDown."""
        rules = kept_rules(self.caller) or await read_rules(self.caller)
        found = await self._take_request(rules.limits, rules.epoch)
        if found.rules_are_old:
            rules = await read_rules(self.caller)
            # Once more is enough: what changes in this moment holds from the next request on.
            found = await self._take_request(rules.limits, epoch="")
        self.headers = headers_of(found.rooms)
        if found.refused is not None:
            raise rate_limited(found)
        self._renewals = start(self._renew())

    async def enter_beside(self) -> None:
        """Take neither a request nor a place: budgets alone bind. Raises StoreDown."""
        rules = kept_rules(self.caller) or await read_rules(self.caller)
        self._rules = tuple(rules.limits)
        self._renewals = start(self._renew())

    async def leave(self) -> None:
        """Give back the place and unused tokens, and the request if it was refused after all."""
        back = [rate for rate in self._rates if rate.kind == "place" or self._refused]
        back += self._unused_tokens()
        async with self._renewing:  # so that no renewal comes after it
            self._has_left = True
            self._stop_renewing()
            await self._give_back(back)

    def _stop_renewing(self) -> None:
        """Once the request has left, and what is made in its name for others has ended, too."""
        if self._has_left and not self._budgets and self._renewals is not None:
            self._renewals.cancel()

    async def _renew(self) -> None:
        """Tell the stores, until cancelled, that this process is alive, and of its calls."""
        while True:
            await asyncio.sleep(_RENEW_EVERY_S)
            with contextlib.suppress(StoreDown):  # the leases outlast some of these
                async with self._renewing:
                    if not self._has_left:
                        await rates.renew(self._rates, request=self._place)
            for budget in tuple(self._budgets):
                with contextlib.suppress(StoreDown):
                    await budget.renew()

    async def _take_request(self, limits: Sequence[LimitRule], epoch: str) -> Taken:
        self._rules = tuple(limits)
        self._rates = rates.rates_of(self.caller.tenant_id, limits, _AT_ADMISSION)
        taking = rates.take(
            self._rates,
            request=self._place,
            epoch_key=epoch_key(self.caller.tenant_id),
            epoch=epoch,
        )
        return await taken(taking, self._undo_request, _PATIENCE_S)

    async def _undo_request(self, found: Taken) -> None:
        if found.refused is None and not found.rules_are_old:
            await self._give_back(self._rates)

    async def _take_tokens(self, worst: WorstCase) -> tuple[Rate, ...]:
        wanted = {Measure.TOKENS_PER_MINUTE: worst.tokens}
        limits = rates.rates_of(self.caller.tenant_id, self._rules, wanted)
        if not limits:
            return ()
        if self._ended:  # what an earlier reservation left may be needed now
            await waited_for(start(self._give_back(self._unused_tokens())), _PATIENCE_S)

        async def undo(found: Taken) -> None:
            if found.refused is None:
                await self._give_back(limits)

        found = await taken(rates.take(limits, request=self._place), undo, _PATIENCE_S)
        self.headers = {**self.headers, **headers_of(found.rooms)}
        if found.refused is not None:
            raise rate_limited(found)
        return limits

    async def _reserve(self, worst: WorstCase, tokens: tuple[Rate, ...]) -> Budget:
        budget = Budget(self, worst)

        async def undo(_: None) -> None:
            await budget.release()

        try:
            await taken(budget.reserve(self._rules), undo, _PATIENCE_S)
        except BaseException:
            await waited_for(start(self._give_back(tokens)), _PATIENCE_S)
            raise
        return budget

    def _unused_tokens(self) -> list[Rate]:
        """What the reservations that have ended did not use; it is given back once."""
        ended, self._ended = self._ended, []
        return [
            replace(rate, n=budget.worst.tokens - budget.spent_tokens)
            for budget, tokens in ended
            for rate in tokens
        ]

    async def _give_back(self, what: Sequence[Rate]) -> None:
        try:
            await rates.give_back(what, request=self._place)
        except StoreDown:
            # Rates drain within a minute, places come free when their lease has run out.
            logger.warning("request %s: its rates were not given back", self.id)


@asynccontextmanager
async def admitted(
    caller: Caller, *, request_id: uuid.UUID | None = None
) -> AsyncIterator[Admission]:
    """Let a request in, or raise RateLimited or StoreDown."""
    admission, began = Admission(caller, request_id or uuid.uuid4()), perf_counter()
    try:
        await admission.enter()
    except (Limited, StoreDown) as exc:
        count_refusal(caller.source, exc.code)
        raise
    export_step(caller, "admission", (perf_counter() - began) * 1000)
    try:
        yield admission
    finally:
        await waited_for(start(admission.leave()), _PATIENCE_S)


@asynccontextmanager
async def admitted_beside(caller: Caller) -> AsyncIterator[Admission]:
    """For a small call of the site's own that nobody waits for: money and tokens bind it.

    It takes no place among a person's answers, so that it never has their next question refused.
    """
    admission = Admission(caller, uuid.uuid4())
    await admission.enter_beside()
    try:
        yield admission
    finally:
        await waited_for(start(admission.leave()), _PATIENCE_S)
