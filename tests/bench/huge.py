"""Huge but honest files: a long PDF, a large table, thousands of files at once."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from django.core.files import File

from apps.documents import services
from apps.documents.management.terminal import table
from apps.documents.models import Batch, Chunk, Document, DocumentState
from apps.tenants.scope import tenant_scope
from tests.bench.ingest_load import Shelf, new_shelf
from tests.bench.ingest_material import paper, short_texts, write_table
from tests.bench.memory import pss
from tests.bench.stand import Stand

_SAMPLE_S = 0.25
_PARSING = ("--queues=ingest,maintenance",)  # a worker that does not embed


def report(stand: Stand, *, pages: int, megabytes: int, files: int, embed: bool) -> None:
    """Print seconds, peaks of memory and the way of the progress for each."""
    if not embed:
        stand.restart_worker(_PARSING)
    end = DocumentState.READY if embed else DocumentState.INDEXING
    with tempfile.TemporaryDirectory(prefix="ragsite-huge-") as folder:
        pdf, csv = Path(folder, "long.pdf"), Path(folder, "large.csv")
        pdf.write_bytes(paper("long", pages))
        write_table(csv, megabytes)
        runs = [
            _one(stand, f"PDF of {pages} pages", pdf, end),
            _one(stand, f"CSV of {megabytes} MB", csv, end),
        ]
    if not embed:
        stand.restart_worker()
    runs.append(_many(stand, f"{files} files at once", files))
    rows: list[tuple[str, ...]] = [
        ("huge", "s", "passages", "worker peak MiB", "largest sandbox", "progress", "load")
    ]
    rows += [run.row() for run in runs]
    print()
    print(*table(rows, right=range(1, 7)), sep="\n")
    said = "embedded too" if embed else "read, cut and stored; HUGE=full embeds them too"
    print(
        f"the single files are {said}; progress: samples, and the last before the end", flush=True
    )


@dataclass
class _Run:
    """One huge thing on its way."""

    name: str
    seconds: float = 0.0
    passages: int = 0
    worker_mib: float = 0.0
    sandbox_mib: float = 0.0
    progress: list[float] = field(default_factory=list)  # 0 to 100
    load: float = 0.0

    def row(self) -> tuple[str, ...]:
        falls = sum(b < a for a, b in zip(self.progress, self.progress[1:], strict=False))
        seen = len(set(self.progress))
        return (
            self.name,
            f"{self.seconds:.1f}",
            str(self.passages),
            f"{self.worker_mib:.0f}",
            f"{self.sandbox_mib:.0f}",
            f"{seen} values, {falls} falls, to {max(self.progress, default=0):.0f} %",
            f"{self.load:.1f}",
        )


def _one(stand: Stand, name: str, path: Path, end: DocumentState) -> _Run:
    shelf = new_shelf(name)
    with path.open("rb") as file:
        run = _follow(
            stand,
            name,
            shelf,
            send=lambda: services.receive_upload(
                tenant=shelf.tenant,
                collection=shelf.collection,
                user=None,
                path=path.name,
                file=File(file, name=path.name),
            ),
            progress=lambda: _progress(shelf, end),
        )
    # Else the next measurement would share the encoder with it, turn by turn.
    services.delete_collection(tenant=shelf.tenant, collection=shelf.collection, actor=None)
    return run


def _progress(shelf: Shelf, end: DocumentState) -> float:
    document: Document = shelf.documents().get()
    assert document.state != DocumentState.FAILED, document.error_code
    if document.state == end:
        return 100.0
    # Two stages, each from nothing to all: the first counts for half where both are waited for.
    part = document.progress_done / document.progress_total if document.progress_total else 0.0
    if end == DocumentState.INDEXING:
        return 99.9 * part
    return 50 * part + (50 if document.state == DocumentState.INDEXING else 0)


def _many(stand: Stand, name: str, count: int) -> _Run:
    shelf = new_shelf(name)
    batch = services.open_batch(
        tenant=shelf.tenant,
        collection=shelf.collection,
        user=None,
        source=Batch.Source.UPLOAD,
        expected=count,
    )

    def send() -> None:
        for file in short_texts("many", count):
            shelf.put(file, batch)

    def progress() -> float:
        states = shelf.documents()
        assert not states.filter(state=DocumentState.FAILED).exists()
        ready: int = states.filter(state=DocumentState.READY).count()
        return 100 * ready / count

    return _follow(stand, name, shelf, send=send, progress=progress)


def _follow(
    stand: Stand,
    name: str,
    shelf: Shelf,
    *,
    send: Callable[[], object],
    progress: Callable[[], float],
) -> _Run:
    run = _Run(name)
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(stand.processes["worker"].pid, run, over))
    watch.start()
    start = time.perf_counter()
    try:
        send()
        while not run.progress or run.progress[-1] < 100:
            with tenant_scope(shelf.tenant.id):
                run.progress.append(progress())
            time.sleep(_SAMPLE_S)
    finally:
        over.set()
        watch.join()
    run.seconds = time.perf_counter() - start
    run.load = os.getloadavg()[0]
    with tenant_scope(shelf.tenant.id):
        run.passages = Chunk.objects.filter(
            tenant=shelf.tenant, document__collection=shelf.collection
        ).count()
    return run


def _watch(worker: int, run: _Run, over: threading.Event) -> None:
    """Peaks: of the worker with all below it, and of one process below the zygote."""
    while not over.wait(_SAMPLE_S):
        total, largest = 0.0, 0.0
        with suppress(psutil.NoSuchProcess):
            top = psutil.Process(worker)
            zygotes = top.children()
            total = sum(pss(one) for one in (top, *zygotes))
            for sandbox in (child for zygote in zygotes for child in zygote.children(True)):
                size = pss(sandbox)
                total, largest = total + size, max(largest, size)
        run.worker_mib = max(run.worker_mib, total)
        run.sandbox_mib = max(run.sandbox_mib, largest)
