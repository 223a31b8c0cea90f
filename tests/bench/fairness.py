"""How long one tenant's document takes while another tenant has hundreds queued."""

from __future__ import annotations

import time

from apps.documents.jobs import UNFINISHED
from apps.documents.models import Document, DocumentState
from apps.tenants.scope import tenant_scope
from tests.bench.ingest_load import Shelf, new_shelf
from tests.bench.ingest_material import heavy_texts

_POLL_S = 0.01
# Between two, so that they meet the other tenant's documents at different places.
_PAUSE_S = 0.7


def measure(*, queued: int, singles: int) -> tuple[list[float], list[float], int]:
    """Seconds on an idle system, seconds beside `queued` others, and how many were left of them."""
    one, many = new_shelf("one document"), new_shelf("many documents")
    series = iter(heavy_texts("fair", 2 * singles + 1))
    _time(one, next(series))  # the first pays for what is loaded on first use
    idle_s = [_time(one, next(series)) for _ in range(singles)]
    for file in heavy_texts("queued", queued):
        many.put(file)
    busy_s = []
    for _ in range(singles):
        busy_s.append(_time(one, next(series)))
        time.sleep(_PAUSE_S)
    with tenant_scope(many.tenant.id):
        left = many.documents().filter(state__in=UNFINISHED).count()
    many.wait()
    return idle_s, busy_s, left


def _time(shelf: Shelf, file: tuple[str, bytes]) -> float:
    start = time.perf_counter()
    document = shelf.put(file)
    while (state := _state(document)) != DocumentState.READY:
        assert state != DocumentState.FAILED
        time.sleep(_POLL_S)
    return time.perf_counter() - start


def _state(document: Document) -> str:
    with tenant_scope(document.tenant_id):
        rows = Document.objects.filter(tenant_id=document.tenant_id, id=document.id)
        return rows.values_list("state", flat=True).get()
