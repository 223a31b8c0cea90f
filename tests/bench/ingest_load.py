"""Sending documents to a running stack and following them to their end."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from django.core.files.base import ContentFile
from django.db.models import Max, Min, Q

from apps.documents import services
from apps.documents.jobs import UNFINISHED
from apps.documents.models import Batch, Chunk, Collection, Document, DocumentState
from apps.inference.registry import get_embedder
from apps.retrieval.embedding import EMBED_BATCH
from apps.retrieval.texts import indexed_text
from apps.telemetry.models import Span
from apps.tenants import services as tenants
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.bench.ingest_material import File

_POLL_S = 0.05
_PATIENCE_S = 600.0


@dataclass(frozen=True)
class Shelf:
    """A tenant's collection to put documents in."""

    tenant: Tenant
    collection: Collection

    def put(self, file: File, batch: Batch | None = None) -> Document:
        path, content = file
        return services.receive_upload(
            tenant=self.tenant,
            collection=self.collection,
            user=None,
            path=path,
            file=ContentFile(content, name=path),
            batch=batch,
        )

    def documents(self) -> Any:
        return Document.objects.filter(tenant=self.tenant, collection=self.collection)

    def wait(self) -> None:
        """Until every document is ready. Fails when one is not, or when nothing moves."""
        left, deadline = -1, 0.0
        while left:
            with tenant_scope(self.tenant.id):
                now = self.documents().filter(state__in=UNFINISHED).count()
            if now != left:
                left, deadline = now, time.monotonic() + _PATIENCE_S
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} documents are not ready; see the worker's log")
            time.sleep(_POLL_S)
        with tenant_scope(self.tenant.id):
            failed = self.documents().filter(state=DocumentState.FAILED)
            assert not failed.exists(), list(failed.values_list("error_code", flat=True))

    def texts(self) -> list[str]:
        """What of these documents was embedded, document by document."""
        with tenant_scope(self.tenant.id):
            chunks = Chunk.objects.filter(tenant=self.tenant, document__collection=self.collection)
            return [indexed_text(chunk) for chunk in chunks.order_by("document_id", "ordinal")]


def new_shelf(name: str, tenant: Tenant | None = None) -> Shelf:
    """A collection of its own, of a tenant of its own where none is given."""
    slug = f"bench-{uuid.uuid4().hex[:12]}"
    tenant = tenant or tenants.create_tenant(slug=slug, name=name)
    with tenant_scope(tenant.id):
        collection = services.create_collection(tenant=tenant, user=None, name=f"{name} {slug}")
    return Shelf(tenant, collection)


@dataclass(frozen=True)
class EncoderClock:
    """What the encoder itself has counted since it started."""

    model_s: float  # the model computed
    open_s: float  # a request was there
    texts: float
    steps: float


def encoder_clock() -> EncoderClock:
    answer = httpx.get(
        f"{os.environ['TEI_URL']}/metrics",
        headers={"authorization": f"Bearer {os.environ['TEI_API_KEY']}"},
        trust_env=False,
    )
    answer.raise_for_status()
    words = [line.split() for line in answer.text.splitlines() if not line.startswith("#")]
    figures = {name.removeprefix("ragsite_encoder_"): float(value) for name, value in words}
    return EncoderClock(
        figures["model_seconds_total"],
        figures["open_seconds_total"],
        figures["texts_total"],
        figures["model_steps_total"],
    )


@dataclass(frozen=True)
class Throughput:
    """Documents from sent to ready, and the same passages merely embedded; seconds."""

    name: str
    documents: int
    passages: int
    wall_s: float
    model_s: float  # of the wall time, the encoder's model computed
    around_s: float  # the encoder had a request, and read, tokenised or answered it
    before_s: float  # no request: the first document was being received and read
    after_s: float  # no request: the last document was being written
    bare_s: float
    load: float  # average of the minute, at the end
    hops: dict[str, float] = field(default_factory=dict)  # summed over documents

    @property
    def share(self) -> float:
        """Of the wall time, in which the model computed."""
        return self.model_s / self.wall_s

    @property
    def between_s(self) -> float:
        """No request, and work was waiting."""
        known = self.model_s + self.around_s + self.before_s + self.after_s
        return max(0.0, self.wall_s - known)

    @property
    def ratio(self) -> float:
        """Passages a second, as a share of what the encoder does alone."""
        return self.bare_s / self.wall_s


def measure(name: str, files: Iterable[File]) -> Throughput:
    """Send `files` at once to a new tenant, wait, then embed the same passages alone."""
    shelf, files = new_shelf(name), list(files)
    clock, started_at, start = encoder_clock(), time.time(), time.perf_counter()
    for file in files:
        shelf.put(file)
    shelf.wait()
    wall_s, end = time.perf_counter() - start, encoder_clock()
    before_s, after_s, hops = _spans(shelf, started_at, wall_s)
    texts = shelf.texts()
    return Throughput(
        name=name,
        documents=len(files),
        passages=len(texts),
        wall_s=wall_s,
        model_s=end.model_s - clock.model_s,
        around_s=(end.open_s - clock.open_s) - (end.model_s - clock.model_s),
        before_s=before_s,
        after_s=after_s,
        bare_s=bare_s(texts),
        load=os.getloadavg()[0],
        hops=hops,
    )


def bare_s(texts: Sequence[str]) -> float:
    """Seconds that the encoder takes for `texts`, batch after batch, with nothing else to do."""
    embedder = get_embedder()
    embedder.embed_documents(texts[:8])
    start = time.perf_counter()
    for at in range(0, len(texts), EMBED_BATCH):
        embedder.embed_documents(texts[at : at + EMBED_BATCH])
    return time.perf_counter() - start


def _spans(shelf: Shelf, started_at: float, wall_s: float) -> tuple[float, float, dict[str, float]]:
    """Seconds before the first index hop and after the last embedding; sums of what hops took."""
    spans = Span.objects.filter(tenant_id=shelf.tenant.id, kind="ingestion")
    index = spans.filter(hop="index", status="ok")
    ends = index.aggregate(first=Min("started_at"), last=Max("started_at"))
    last = index.get(started_at=ends["last"])
    before_s = ends["first"].timestamp() - started_at
    index_end_s = last.started_at.timestamp() + last.work_ms / 1000 - started_at
    after_s = max(0.0, wall_s - index_end_s) + last.attributes.get("write_ms", 0.0) / 1000
    sums: dict[str, float] = {}
    for span in spans.filter(~Q(status="error")):
        for figure, ms in _parts(span):
            sums[figure] = sums.get(figure, 0.0) + ms / 1000
    return before_s, after_s, sums


def _parts(span: Span) -> Iterable[tuple[str, float]]:
    """A hop's work, by what it was spent on."""
    told = span.attributes
    if span.hop == "parse":
        yield "wait to be read", span.wait_ms
        yield "parse", span.work_ms - told.get("write_ms", 0.0)
        yield "write pages and chunks", told.get("write_ms", 0.0)
    elif span.hop == "index":
        embed, write = told.get("embed_ms", 0.0), told.get("write_ms", 0.0)
        yield "wait to be indexed", span.wait_ms
        yield "await vectors", embed
        yield "write index", write
        yield "rest of index", span.work_ms - embed - write
    else:
        yield span.hop, span.work_ms
