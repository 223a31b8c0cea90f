"""One call for all who ask the same at the same time.

The first to ask makes a flight: a task of its own, which lives while anybody listens. What has
come so far is kept for those who join later, and everybody reads it at their own pace. Between
processes a lease in Redis decides who makes the answer; the others read it once it is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from django.utils.translation import gettext

from apps.gateway.caching.leases import Lease, Taken
from apps.gateway.caching.types import Asker, Made
from apps.gateway.errors import GatewayError
from apps.gateway.types import CacheNote, CacheResult

E = TypeVar("E")

# How far the call may be ahead of whoever reads fastest: nobody reading stops it, as without us.
AHEAD_EVENTS = 512
# Of a longer answer nothing is kept for latecomers, and who is so far behind is cut off.
KEPT_EVENTS = 16_384
# Flights of a process at once; above, everybody makes their own.
FLIGHTS_MAX = 2_000
_POLL_S, _POLL_MAX_S = 0.02, 0.2  # how often another process's lease is looked at
# Longest wait for another process's answer, of which nothing is seen before its end.
_WAIT_MAX_S = 60.0


@dataclass(frozen=True)
class Found(Generic[E]):
    """An answer that another process has stored meanwhile."""

    events: Sequence[E]
    cost_micros: int
    total_ms: float


@dataclass(frozen=True)
class Shelf(Generic[E]):
    """Where a flight finds what others have stored, and stores what it made. Neither raises."""

    find: Callable[[], Awaitable[Found[E] | None]]
    put: Callable[[Made], Awaitable[bool]]


class Flight(Generic[E]):
    """One answer being made, and those who listen."""

    def __init__(self, key: bytes, shelf: Shelf[E], leave_map: Callable[[Flight[E]], None]) -> None:
        self.key = key
        self.owner: Asker[E] | None = None  # in whose name it is made, once it is
        self.error: BaseException | None = None
        self.begun = False  # an event has come
        self.saved: tuple[int, float] = (0, 0.0)  # micros and ms that the answer has cost
        self._shelf = shelf
        self._leave_map = leave_map
        self._askers: list[Asker[E]] = []
        self._events: list[E] = []
        self._dropped = 0  # events that are not kept any more
        self._made = False
        self._ended = False
        self._came = asyncio.Event()  # replaced whenever something has come
        self._was_read = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def listen(self, asker: Asker[E]) -> AsyncGenerator[E, None]:
        """The answer's events from the first on. Raises what ended it; see `error` and `begun`."""
        self._askers.append(asker)
        asker.position = 0
        try:
            while True:
                came = self._came
                while asker.position < self._dropped + len(self._events):
                    yield self._next(asker)
                if self._ended:
                    break
                await came.wait()
            if self.error is not None:
                raise self.error
        finally:
            await self._leave(asker)

    def _next(self, asker: Asker[E]) -> E:
        if asker.position < self._dropped:
            raise GatewayError(gettext("The answer was read too slowly to be kept. Ask again."))
        event = self._events[asker.position - self._dropped]
        asker.position += 1
        self._was_read.set()
        return event

    async def _leave(self, asker: Asker[E]) -> None:
        """The last to leave ends the call, and sees it closed; one that is all there is stored."""
        self._askers.remove(asker)
        if not self._askers and not self._made and not self._task.done():
            self._leave_map(self)
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        lease, stored = Lease(self.key), False
        try:
            found = await self._wait_for_turn(lease)
            stored = await (self._make() if found is None else self._give(found))
        except asyncio.CancelledError:
            self.error = GatewayError("The call was broken off. Ask again.")
            raise
        except Exception as exc:  # whatever it is, it is theirs who listen
            self.error = exc
        finally:
            await lease.release(stored=stored)
            self._leave_map(self)
            self._ended = True
            self._tell()

    async def _wait_for_turn(self, lease: Lease) -> Found[E] | None:
        """Until it is our turn to make it (None), or another process has stored it."""
        gone, poll_s = False, _POLL_S
        deadline = monotonic() + _WAIT_MAX_S
        while monotonic() < deadline:
            taken = await lease.take(stored_is_gone=gone)
            if taken in (Taken.OURS, Taken.AWAY):
                return None
            if taken is Taken.BUSY:
                gone = False
                await asyncio.sleep(poll_s)
                poll_s = min(poll_s * 1.5, _POLL_MAX_S)
            elif (found := await self._shelf.find()) is not None:
                return found
            else:
                gone = True
        return None

    async def _give(self, found: Found[E]) -> bool:
        self.saved = (found.cost_micros, found.total_ms)
        for event in found.events:
            await self._publish(event)
        return True

    async def _make(self) -> bool:
        """Make it in the name of the first who still listens; whether it was stored."""
        owner = self.owner = self._askers[0]
        owner.use.note = CacheNote(CacheResult.MISS, owner.use.note.reason)
        async with aclosing(owner.produce()) as events:
            async for event in events:
                await self._publish(event)
        self._made = True
        made = None if self._dropped else owner.codec.encode(self._events)
        if made is None:
            return False
        self.saved = (made.cost_micros, made.total_ms)
        return await self._shelf.put(made)

    async def _publish(self, event: E) -> None:
        self._events.append(event)
        self.begun = True
        if len(self._events) > KEPT_EVENTS:
            self._leave_map(self)
            dropped = KEPT_EVENTS // 2
            del self._events[:dropped]
            self._dropped += dropped
        self._tell()
        while self._ahead() >= AHEAD_EVENTS:
            self._was_read.clear()
            await self._was_read.wait()

    def _ahead(self) -> int:
        """Events that nobody has read yet; while nobody listens, the call is about to end."""
        furthest = max((asker.position for asker in self._askers), default=0)
        return self._dropped + len(self._events) - furthest

    def _tell(self) -> None:
        came, self._came = self._came, asyncio.Event()
        came.set()


_flights: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bytes, Flight[Any]]] = (
    WeakKeyDictionary()
)


def find_flight(key: bytes) -> Flight[Any] | None:
    """The running loop's flight for `key`, if it can be joined."""
    return _of_loop().get(key)


def start_flight(key: bytes, shelf: Shelf[E]) -> Flight[E] | None:
    """A new one for `key`, to be listened to at once; None where there are too many."""
    flights = _of_loop()
    if len(flights) >= FLIGHTS_MAX:
        return None
    flight = flights[key] = Flight(key, shelf, _leave_map)
    return flight


def _leave_map(flight: Flight[Any]) -> None:
    flights = _of_loop()
    if flights.get(flight.key) is flight:
        del flights[flight.key]


def _of_loop() -> dict[bytes, Flight[Any]]:
    return _flights.setdefault(asyncio.get_running_loop(), {})
