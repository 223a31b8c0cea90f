"""Indexing throughput of the whole way in, against the bare encoder on the same texts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.files.base import ContentFile
from django.db.models import Sum

from apps.documents import services
from apps.documents.models import Chunk, Collection, Document, DocumentState
from apps.inference.registry import get_embedder
from apps.retrieval.embedding import EMBED_BATCH
from apps.retrieval.texts import indexed_text
from apps.telemetry.models import Span
from apps.tenants.scope import tenant_scope
from ragsite.stack.demo import corpus
from ragsite.stack.demo.people import Demo


@dataclass(frozen=True)
class Indexing:
    """Seconds for the same passages, received to ready and merely embedded."""

    name: str
    documents: int
    passages: int
    whole_s: float
    bare_s: float
    hops_s: dict[str, float]  # work of each hop, added up over the documents

    @property
    def ratio(self) -> float:
        """Throughput of the whole way in as a share of the bare encoder's."""
        return self.bare_s / self.whole_s


def measure(demo: Demo, name: str, contents: Sequence[bytes]) -> Indexing:
    """Upload Markdown `contents` to a collection of their own and wait until all are ready."""
    with tenant_scope(demo.tenant.id):
        collection = services.create_collection(
            tenant=demo.tenant, user=demo.corpus_admin, name=name
        )
    started = time.perf_counter()
    for number, content in enumerate(contents):
        file = ContentFile(content, name=f"{number}.md")
        services.receive_upload(
            tenant=demo.tenant,
            collection=collection,
            user=demo.corpus_admin,
            path=f"{number}.md",
            file=file,
        )
    _wait(demo, collection, len(contents))
    whole_s = time.perf_counter() - started
    texts = _texts(demo, collection)
    hops_s = _hops(demo, collection)
    return Indexing(name, len(contents), len(texts), whole_s, _embed(texts), hops_s)


def small_documents(copies: int) -> list[bytes]:
    """Each page of the documentation as a file, `copies` times, every paragraph of its own."""
    return [_marked(page, copy) for copy in range(copies) for page in _pages()]


def large_documents(copies: int) -> list[bytes]:
    """The whole documentation as one file, `copies` times."""
    return [_marked("\n\n".join(_pages()), 1000 + copy) for copy in range(copies)]


def _pages() -> list[str]:
    return [path.read_text() for path in sorted(Path(settings.BASE_DIR / "docs").glob("*.md"))]


def _marked(text: str, copy: int) -> bytes:
    return text.replace("\n\n", f"\n\nCopy {copy}. ").encode()


def _wait(demo: Demo, collection: Collection, count: int) -> None:
    ready = sum(
        document.state == DocumentState.READY
        for document in corpus.wait_until_ingested(demo, collection)
    )
    with tenant_scope(demo.tenant.id):
        failed = Document.objects.filter(
            tenant=demo.tenant, collection=collection, state=DocumentState.FAILED
        ).count()
    assert failed == 0, f"{failed} of {count} documents failed, {ready} became ready"


def _texts(demo: Demo, collection: Collection) -> list[str]:
    with tenant_scope(demo.tenant.id):
        chunks = Chunk.objects.filter(tenant=demo.tenant, document__collection=collection)
        return [indexed_text(chunk) for chunk in chunks.order_by("document_id", "ordinal")]


def _hops(demo: Demo, collection: Collection) -> dict[str, float]:
    """Seconds of work by hop; a document's trace has the document's id."""
    with tenant_scope(demo.tenant.id):
        documents = Document.objects.filter(tenant=demo.tenant, collection=collection)
        ids = list(documents.values_list("id", flat=True))
        spans = Span.objects.filter(tenant_id=demo.tenant.id, kind="ingestion", trace_id__in=ids)
        totals = spans.values("hop").annotate(work_ms=Sum("work_ms")).order_by("-work_ms")
        return {row["hop"]: row["work_ms"] / 1000 for row in totals}


def _embed(texts: list[str]) -> float:
    embedder = get_embedder()
    embedder.embed_documents(texts[:8])
    started = time.perf_counter()
    for first in range(0, len(texts), EMBED_BATCH):
        embedder.embed_documents(texts[first : first + EMBED_BATCH])
    return time.perf_counter() - started
