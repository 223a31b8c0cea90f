"""Trying a call at one upstream after another, as long as nothing of it has been shown.

Others first, then the same again after a pause. What an error says decides: a refusal for load
waits as the server asked, a wrong key is not tried there again, a request at fault nowhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from apps.gateway.calling.reports import CallReport
from apps.gateway.calling.routing import Down, return_place, take_place
from apps.gateway.calling.slots import Place, Went
from apps.gateway.errors import NoUpstream
from apps.gateway.types import Model, Upstream
from apps.inference import errors

log = logging.getLogger(__name__)

T = TypeVar("T")

# Every upstream is tried so many times; full jitter in between (0.2, 0.4, … at most 2 s).
ROUNDS = 3
_PAUSE = wait_random_exponential(multiplier=0.2, max=2)
# A server that asks for more patience than this is as good as down for whoever is waiting.
_RETRY_AFTER_MAX_S = 5.0
# What tells that an upstream is not well. A refusal for load or for the request does not.
_UNWELL = (errors.Unavailable, errors.TimedOut, errors.ProtocolError, errors.Interrupted)
_ELSEWHERE = (*_UNWELL, errors.Overloaded, errors.Unauthorised)


class DeadlineOver(errors.TimedOut):
    """The whole call took too long, which says little of the upstream that it ended at."""


@dataclass
class Held:
    """A place that a try has, and whether anything has come of it."""

    place: Place
    begun: bool = False


@dataclass
class Attempts:
    """One call's tries. `run` repeats `attempt` until it succeeds or no further try can help."""

    model: Model
    report: CallReport
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    tried: set[str] = field(default_factory=set)  # in this round
    barred: set[str] = field(default_factory=set)  # where another try is no use
    last: errors.InferenceError | None = None

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What `attempt` returns, which calls in a block of `placed`; raises the last error."""
        retrying = AsyncRetrying(
            retry=retry_if_exception_type((*_ELSEWHERE, Down)),
            stop=self._hopeless,
            wait=self._pause,
            before_sleep=self._next_round,
            reraise=True,
        )
        try:
            return await retrying(self._once, attempt)
        except NoUpstream as exc:
            # Nothing was left to try: what had failed says more.
            raise self.last or exc from exc

    @asynccontextmanager
    async def placed(self) -> AsyncIterator[Held]:
        """A place for one try; how the block ends tells how the upstream is.

        Raises NoUpstream or StoreDown. The wait counts into the report's `queue_ms`.
        """
        report, waited_from = self.report, perf_counter()
        try:
            place = await take_place(self.model, self.tried | self.barred, self.deadline())
        finally:
            report.queue_ms += (perf_counter() - waited_from) * 1000
        report.upstream, report.upstream_model = place.route.upstream.name, place.route.model
        report.attempts += 1
        held, failure = Held(place), None
        try:
            yield held
        except BaseException as exc:
            failure = exc
            raise
        finally:
            code = failure.code if isinstance(failure, errors.InferenceError) else ""
            await return_place(place, _went(failure, begun=held.begun), code)

    def deadline(self, upstream: Upstream | None = None) -> float:
        """When the call's time is over at that upstream, or at any; on the loop's clock."""
        upstreams = [upstream] if upstream else [route.upstream for route in self.model.routes]
        return self.began + max((one.deadline_s for one in upstreams), default=0.0)

    async def _once(self, attempt: Callable[[], Awaitable[T]]) -> T:
        try:
            return await attempt()
        except errors.InferenceError as exc:
            self.last = exc
            self._note(exc)
            raise

    def _note(self, exc: errors.InferenceError) -> None:
        name = self.report.upstream
        self.tried.add(name)
        if isinstance(exc, errors.Unauthorised):
            self.barred.add(name)
            log.error("upstream %s refuses its key: check the variable that holds it", name)
        else:
            if isinstance(exc, errors.TimedOut):
                self.barred.add(name)  # whoever asked has waited long enough for that one
            log.warning("call at upstream %s failed: %s", name, exc.code)

    @property
    def _left(self) -> set[str]:
        return {route.upstream.name for route in self.model.routes} - self.barred

    @property
    def _round_over(self) -> bool:
        return not self._left - self.tried

    def _hopeless(self, state: RetryCallState) -> bool:
        error = _error_of(state)
        if isinstance(error, DeadlineOver) or asyncio.get_running_loop().time() > self.deadline():
            return True
        if not self._left or state.attempt_number >= ROUNDS * len(self._left):
            return True
        return self._round_over and _asked_s(error) > _RETRY_AFTER_MAX_S

    def _pause(self, state: RetryCallState) -> float:
        """None before another upstream; else as asked, or at random up to twice the last time."""
        error = _error_of(state)
        if not self._round_over and not isinstance(error, Down):
            return 0.0
        return max(_PAUSE(state), _asked_s(error))

    def _next_round(self, state: RetryCallState) -> None:
        # Without a place elsewhere, those that failed before are what is left.
        if self._round_over or isinstance(_error_of(state), Down):
            self.tried.clear()


def _went(exc: BaseException | None, *, begun: bool) -> Went:
    if exc is None:
        return Went.WELL
    if isinstance(exc, DeadlineOver) or (begun and isinstance(exc, errors.TimedOut)):
        return Went.UNKNOWN
    return Went.BADLY if isinstance(exc, _UNWELL) else Went.UNKNOWN


def _asked_s(error: BaseException | None) -> float:
    """Seconds that the server asked to wait."""
    return (error.retry_after_s or 0.0) if isinstance(error, errors.InferenceError) else 0.0


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
