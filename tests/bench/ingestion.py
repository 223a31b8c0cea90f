"""`make bench-ingest`: what ingestion costs on the real stack, in one run.

ONLY=throughput,precision,fairness,memory,huge chooses parts. Counts, with their defaults:
HEAVY=24 SHORT=150 PDFS=6 (throughput), QUERIES=40 PASSAGES=240 (precision), QUEUED=40 SINGLES=5
(fairness), DOCUMENTS=400 (memory), PAGES=300 CSV_MB=10 FILES=300 (huge); HUGE=full embeds huge
files too.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from apps.documents.management.terminal import table
from tests.bench.stand import Stand, running_stack

if TYPE_CHECKING:
    from tests.bench.ingest_load import Throughput

PARTS = ("throughput", "precision", "fairness", "memory", "huge")
TARGET_SHARE, TARGET_RATIO, TARGET_WAIT = 0.85, 0.80, 3.0


def number(name: str, default: int) -> int:
    return int(os.environ.get(name) or default)


def main() -> None:
    wanted = (os.environ.get("ONLY") or ",".join(PARTS)).split(",")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before", flush=True)
    with running_stack(("postgres", "redis", "encoder", "schema", "worker")) as stand:
        for part in wanted:
            _PARTS[part](stand)
    print(f"\nload {os.getloadavg()[0]:.1f} after")


def _throughput(stand: Stand) -> None:
    from tests.bench.ingest_load import measure
    from tests.bench.ingest_material import heavy_texts, papers, short_texts

    heavy, short, pdfs = number("HEAVY", 24), number("SHORT", 150), number("PDFS", 6)
    results = []
    for dtype in ("float32", "bfloat16"):
        stand.restart_encoder(EMBEDDING_DTYPE=dtype)
        measure("warm-up", heavy_texts(f"{dtype} warm", 3))
        name = f"{dtype}, 1 worker"
        results += [
            measure(f"text of 20 kB, {name}", heavy_texts(name, heavy)),
            measure(f"short, {name}", short_texts(name, short)),
            measure(f"PDF of 10 pages, {name}", papers(name, pdfs)),
        ]
        with stand.another_worker():
            name = f"{dtype}, 2 workers"
            results += [
                measure(f"text of 20 kB, {name}", heavy_texts(name, heavy)),
                measure(f"short, {name}", short_texts(name, short)),
            ]
    _print_rates(results)
    _print_shares(results)
    _print_hops(results)


def _print_rates(results: Sequence[Throughput]) -> None:
    rows = [
        (
            "from sent to ready",
            "documents",
            "passages",
            "docs/s",
            "passages/s",
            "bare",
            "ratio",
            "load",
        )
    ]
    rows += [
        (
            result.name,
            str(result.documents),
            str(result.passages),
            f"{result.documents / result.wall_s:.1f}",
            f"{result.passages / result.wall_s:.1f}",
            f"{result.passages / result.bare_s:.1f}",
            f"{result.ratio:.2f}",
            f"{result.load:.1f}",
        )
        for result in results
    ]
    print()
    print(*table(rows, right=range(1, 8)), sep="\n")
    print(
        f"bare: the encoder alone, same passages, same run; target: ratio {TARGET_RATIO:.2f}",
        flush=True,
    )


def _print_shares(results: Sequence[Throughput]) -> None:
    rows: list[tuple[str, ...]] = [
        (
            "wall time, measured at the encoder",
            "s",
            "model",
            "around it",
            "before",
            "between",
            "after",
        )
    ]
    for result in results:
        spent = (result.model_s, result.around_s, result.before_s, result.between_s, result.after_s)
        rows.append(
            (
                result.name,
                f"{result.wall_s:.1f}",
                *(f"{spent_s / result.wall_s:.0%}" for spent_s in spent),
            )
        )
    print()
    print(*table(rows, right=range(1, 7)), sep="\n")
    print(
        "model: it computed; around it: requests read, tokenised and answered meanwhile; the rest:"
    )
    print("no request was there, before the first, between two, after the last document's")
    print(f"target: model at least {TARGET_SHARE:.0%} on text of 20 kB", flush=True)


def _print_hops(results: Sequence[Throughput]) -> None:
    names = list(dict.fromkeys(name for result in results for name in result.hops))
    names = [name for name in names if not name.startswith("wait to")]
    rows = [("ms a document, by hop", *names)]
    rows += [
        (
            result.name,
            *(f"{1000 * result.hops.get(name, 0.0) / result.documents:.1f}" for name in names),
        )
        for result in results
    ]
    print()
    print(*table(rows, right=range(1, len(names) + 1)), sep="\n", flush=True)


def _precision(_: Stand) -> None:
    from tests.bench import precision
    from tests.bench.ingest_material import SCIFACT

    if not (SCIFACT / "corpus.jsonl").is_file():
        print("\nprecision: needs ../shared/data/retrieval/scifact, skipped")
        return
    precision.report(queries=number("QUERIES", 40), passages=number("PASSAGES", 240))


def _fairness(stand: Stand) -> None:
    from tests.bench import fairness

    queued, singles = number("QUEUED", 40), number("SINGLES", 5)
    idle_s, busy_s, left = fairness.measure(queued=queued, singles=singles)
    ratios = [busy / statistics.median(idle_s) for busy in busy_s]
    print(f"\nFairness: one tenant's document of 20 kB, {singles} times each way")
    rows = [
        ("from sent to ready", "median s", "worst s"),
        ("idle system", f"{statistics.median(idle_s):.2f}", f"{max(idle_s):.2f}"),
        (
            f"another tenant has {queued} queued",
            f"{statistics.median(busy_s):.2f}",
            f"{max(busy_s):.2f}",
        ),
    ]
    print(*table(rows, right=(1, 2)), sep="\n")
    print(
        f"to the idle median: {statistics.median(ratios):.2f} median, {max(ratios):.2f} worst, "
        f"target {TARGET_WAIT:.0f}; {left} of the others were unfinished at the end",
        flush=True,
    )


def _memory(stand: Stand) -> None:
    from tests.bench import ingest_memory

    ingest_memory.report(stand, number("DOCUMENTS", 400))


def _huge(stand: Stand) -> None:
    from tests.bench import huge

    huge.report(
        stand,
        pages=number("PAGES", 300),
        megabytes=number("CSV_MB", 10),
        files=number("FILES", 300),
        embed=os.environ.get("HUGE") == "full",
    )


_PARTS = {
    "throughput": _throughput,
    "precision": _precision,
    "fairness": _fairness,
    "memory": _memory,
    "huge": _huge,
}

if __name__ == "__main__":
    main()
