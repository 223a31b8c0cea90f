"""Memory of a worker over thousands of documents: flat, or by how much it grows."""

from __future__ import annotations

import os
import time
from itertools import islice

import numpy as np

from apps.documents.management.terminal import table
from tests.bench.ingest_load import new_shelf
from tests.bench.ingest_material import short_texts
from tests.bench.memory import pss_mib
from tests.bench.stand import Stand

_ROWS = 10


def report(stand: Stand, documents: int) -> None:
    """Print the worker's PSS (with zygote and sandboxes) as `documents` short ones pass."""
    shelf, files = new_shelf("memory"), short_texts("memory", documents)
    step = max(1, documents // _ROWS)
    done, start, samples = 0, time.perf_counter(), []
    while batch := list(islice(files, step)):
        for file in batch:
            shelf.put(file)
        shelf.wait()
        done += len(batch)
        samples.append(
            (done, pss_mib(stand, "worker")["worker"], pss_mib(stand, "encoder")["encoder"])
        )
    wall_s = time.perf_counter() - start
    rows = [("documents", "worker, MiB PSS", "encoder")]
    rows += [(str(n), f"{worker:.1f}", f"{encoder:.1f}") for n, worker, encoder in samples]
    print(f"\nMemory over {done} short documents, {done / wall_s:.1f} a second")
    print(*table(rows, right=(0, 1, 2)), sep="\n")
    later = [(n, worker) for n, worker, _ in samples[len(samples) // 5 :]]
    slope = np.polyfit([n / 1000 for n, _ in later], [worker for _, worker in later], 1)[0]
    print(
        f"slope after the first fifth: {slope:+.2f} MiB per 1,000 documents; "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
