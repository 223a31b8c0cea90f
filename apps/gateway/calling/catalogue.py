"""The models that are offered, the upstreams behind them, and what they cost.

Made of the settings and of what operations have configured. A process keeps a snapshot of the
latter and reads it anew when it is some seconds old.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from django.db import Error as DatabaseFault
from django.utils.translation import gettext
from psycopg import Error as DriverFault

from apps.gateway.calling.configured import Configured, read_configured
from apps.gateway.calling.own import own_models
from apps.gateway.errors import StoreDown, UnknownModel
from apps.gateway.ledger.prices import PriceRule
from apps.gateway.types import Model, Upstream
from apps.tenants.aio import in_thread

log = logging.getLogger(__name__)

SNAPSHOT_S = 5.0
# A caller waits no longer than this for what is read anew; then the older snapshot will do.
_REREAD_S = 1.0


@dataclass(frozen=True)
class Catalogue:
    models: tuple[Model, ...]  # of every kind, the default first
    upstreams: tuple[Upstream, ...]
    prices: tuple[PriceRule, ...]
    problems: tuple[str, ...] = ()  # why configured rows were left out, for operations

    def find(self, alias: str, kind: str = "chat") -> Model:
        """The model called `alias`, or the first of its kind for ""; raises UnknownModel."""
        models = [model for model in self.models if model.kind == kind]
        for model in models:
            if alias in ("", model.alias):
                return model
        none = "none: set OPENAI_URL or TGI_URL" if kind == "chat" else "none"
        offered = ", ".join(model.alias for model in models) or none
        words = gettext("There is no model called %(name)s. Offered: %(models)s.")
        raise UnknownModel(words % {"name": repr(alias[:60]), "models": offered})

    def upstream(self, name: str) -> Upstream | None:
        """The upstream called `name`, if it is enabled."""
        return next((upstream for upstream in self.upstreams if upstream.name == name), None)


@dataclass(frozen=True)
class _Snapshot:
    configured: Configured
    read_at: float  # time.monotonic()

    @property
    def fresh(self) -> bool:
        return time.monotonic() - self.read_at < SNAPSHOT_S


_snapshot: _Snapshot | None = None
_reading = threading.Lock()
_rereads: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()
_merged: tuple[Configured, tuple[Model, ...], Catalogue] | None = None


def current() -> Catalogue:
    """The catalogue, from synchronous code. Raises StoreDown where it was never read."""
    if _snapshot is None or not _snapshot.fresh:
        _read()
    return _catalogue()


async def load() -> Catalogue:
    """The catalogue, from asynchronous code. Raises like `current`."""
    if _snapshot is None or not _snapshot.fresh:
        task = _reread()
        if _snapshot is None:
            await asyncio.shield(task)
        else:
            await asyncio.wait({task}, timeout=_REREAD_S)
    return _catalogue()


def forget() -> None:
    """Read anew at the next call: a row has changed."""
    global _snapshot, _merged
    _snapshot = _merged = None


def _reread() -> asyncio.Task[None]:
    """One reading at a time, however many calls wait for it."""
    loop = asyncio.get_running_loop()
    task = _rereads.get(loop)
    if task is None:
        task = _rereads[loop] = loop.create_task(in_thread(_read))
        task.add_done_callback(_noted)
    return task


def _noted(task: asyncio.Task[None]) -> None:
    _rereads.pop(task.get_loop(), None)  # a task holds its loop
    # A fault reaches those who wait for the first snapshot; nobody else needs to see it.
    if not task.cancelled():
        task.exception()


def _read() -> None:
    global _snapshot
    with _reading:
        if _snapshot is not None and _snapshot.fresh:
            return  # another thread has just read it
        try:
            configured = read_configured()
            if _snapshot is not None and configured == _snapshot.configured:
                configured = _snapshot.configured  # so that nothing is made anew
            _snapshot = _Snapshot(configured, time.monotonic())
        except (DatabaseFault, DriverFault, OSError) as exc:
            if _snapshot is None:
                raise StoreDown(
                    gettext(
                        "The database cannot be reached, so it is not known which models there "
                        "are. Try again in a moment."
                    )
                ) from exc
            log.warning("the models were not read anew: %s", type(exc).__name__)


def _catalogue() -> Catalogue:
    """Settings and snapshot together; made again only when one of them is another."""
    global _merged
    # Another thread may have forgotten it since.
    configured = _snapshot.configured if _snapshot else Configured()
    own, merged = own_models(), _merged
    if merged is None or merged[0] is not configured or merged[1] is not own:
        _merged = merged = configured, own, _merge(own, configured)
    return merged[2]


def _merge(own: tuple[Model, ...], configured: Configured) -> Catalogue:
    own_upstreams = {route.upstream.name: route.upstream for m in own for route in m.routes}
    offered = configured.beside({model.alias for model in own}, set(own_upstreams))
    for problem in offered.problems:
        log.warning("not offered: %s", problem)
    return Catalogue(
        models=(*offered.before, *own, *offered.after),
        upstreams=(*own_upstreams.values(), *offered.upstreams),
        prices=configured.prices,
        problems=offered.problems,
    )
