"""A place at one of a model's upstreams: taken at once, waited for in line, or refused in words."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext

from apps.gateway.calling import slots
from apps.gateway.calling.slots import Place, Went, Why
from apps.gateway.calling.waiting import Waiters
from apps.gateway.errors import NoUpstream
from apps.gateway.types import Model, Route
from apps.inference.per_loop import PerLoop

# Between two looks for a place that another process may have given back; those of this process
# are noticed at once.
_LOOK_MIN_S = 0.02
_LOOK_MAX_S = 0.25
# An answer does not wait longer for its place to be given back; that goes on by itself.
_RETURN_S = 1.0


class Busy(NoUpstream):
    """All are full, and none had room in time."""


class Down(NoUpstream):
    """None can be reached; a moment later one may."""


@dataclass
class _Line:
    """Calls of this process that wait for the same upstreams: first come, first served."""

    waiters: Waiters
    head: asyncio.Lock = field(default_factory=asyncio.Lock)  # asyncio's are fair
    freed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class _Lines:
    by_upstreams: dict[frozenset[str], _Line] = field(default_factory=dict)
    returns: set[asyncio.Task[None]] = field(default_factory=set)


async def _drop(lines: _Lines) -> None:
    lines.by_upstreams.clear()


_lines: PerLoop[_Lines] = PerLoop(_Lines, _drop)


async def take_place(model: Model, excluded: Collection[str], until: float) -> Place:
    """A place at the least loaded healthy upstream of `model` that is not among `excluded`.

    Waits its turn while all are full, at most until the loop's clock shows `until`. Raises Busy
    when that took too long, Down when none can be reached, and StoreDown.
    """
    routes = [route for route in model.routes if route.upstream.name not in excluded]
    if not routes:
        raise _down(model)
    names = frozenset(route.upstream.name for route in routes)
    line = _line_for(names)
    if not line.head.locked():
        place = await _uninterrupted(routes)
        if place is not Why.FULL:
            return _taken(place, model)
    patience = max(route.upstream.queue_timeout_s for route in routes)
    try:
        async with asyncio.timeout_at(min(until, asyncio.get_running_loop().time() + patience)):
            with line.waiters.waiting():
                return await _wait_in_line(line, routes, model)
    except TimeoutError as exc:
        words = gettext(
            "Every server of the model %(model)s is busy and none had room within "
            "%(seconds)s s. Try again in a moment."
        )
        raise Busy(words % {"model": model.alias, "seconds": f"{patience:g}"}) from exc


def _line_for(names: frozenset[str]) -> _Line:
    lines = _lines.get().by_upstreams
    if names not in lines:
        lines[names] = _Line(Waiters(",".join(sorted(names))))
    return lines[names]


async def _wait_in_line(line: _Line, routes: Sequence[Route], model: Model) -> Place:
    pause = _LOOK_MIN_S
    async with line.head:
        while True:
            line.freed.clear()
            place = await _uninterrupted(routes)
            if place is not Why.FULL:
                return _taken(place, model)
            try:
                async with asyncio.timeout(random.uniform(pause / 2, pause)):  # noqa: S311 - no secret
                    await line.freed.wait()
            except TimeoutError:
                pause = min(2 * pause, _LOOK_MAX_S)


async def _uninterrupted(routes: Sequence[Route]) -> Place | Why:
    """A place taken just as the wait ends must not be lost: it is given back."""
    task = asyncio.ensure_future(slots.take(routes))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_return_unwanted)
        raise


def _return_unwanted(task: asyncio.Future[Place | Why]) -> None:
    if not task.cancelled() and not task.exception() and isinstance(place := task.result(), Place):
        _return(place, Went.UNKNOWN, "")


def _taken(place: Place | Why, model: Model) -> Place:
    if isinstance(place, Place):
        return place
    raise _down(model)


def _down(model: Model) -> Down:
    words = gettext(
        "No server of the model %(model)s can be reached at the moment. "
        "Try again in a moment; operations see why under Upstreams."
    )
    return Down(words % {"model": model.alias})


async def return_place(place: Place, went: Went, error_code: str = "") -> None:
    """Give a place back. Done also when the caller is cancelled meanwhile; never raises."""
    await asyncio.wait({_return(place, went, error_code)}, timeout=_RETURN_S)


def _return(place: Place, went: Went, error_code: str) -> asyncio.Task[None]:
    lines = _lines.get()
    task = asyncio.get_running_loop().create_task(_give_back(place, went, error_code))
    lines.returns.add(task)
    task.add_done_callback(lines.returns.discard)
    return task


async def _give_back(place: Place, went: Went, error_code: str) -> None:
    await slots.give_back(place, went, error_code)
    for names, line in _lines.get().by_upstreams.items():
        if place.route.upstream.name in names:
            line.freed.set()
