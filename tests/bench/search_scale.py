"""`make bench-search`: vector search as tenants grow, on real clustered embeddings.

    python -m tests.bench.search_scale                        200,000 + 20 x 10,000 + 500 x 100
    python -m tests.bench.search_scale --large 20000 --middle 2 --small 20 --questions 60   a minute

One tenant holds SciFact and MuSiQue, so SQuAD's questions are off its topic; the others hold one
topic each. Prints recall against exact search, latency through `vectors.search` and of the same
statements sent by psycopg alone, how HNSW indexes build and grow, and searches of a part. Vectors
are made once and kept under var/bench. PostgreSQL is started for the duration.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg

from apps.documents.management.terminal import table
from tests import parts

if TYPE_CHECKING:
    from apps.retrieval.plans import SearchPlan
    from tests.bench.search_material import Halves, Material
    from tests.bench.search_tenants import Loaded

K = 20
QUESTIONS = 5_000  # embedded; chosen from
LARGE_SOURCES = (0, 3)  # SciFact and MuSiQue, by their place in SOURCES
MIDDLE_CHUNKS, SMALL_CHUNKS = 10_000, 100
EF_SEARCHES = (100, 150, 200, 300, 400, 800)
GROWTH = (100, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
INSERTED = 1_000
NARROWED_ASKED = 60
NARROWED_SHARES = (0.01, 0.05, 0.3, 0.6)
TARGET_RECALL, TARGET_RATIO = 0.98, 1.2


@dataclass(frozen=True)
class Asked:
    """Questions (rows of the questions' matrix) to a tenant."""

    loaded: Loaded
    own: list[int]
    off: list[int]


@dataclass(frozen=True)
class Timed:
    """Milliseconds a search, one entry a question."""

    site: list[float]
    direct: list[float]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--large", type=int, default=200_000, help="chunks of the large tenant")
    parser.add_argument("--middle", type=int, default=20, help=f"tenants of {MIDDLE_CHUNKS:,}")
    parser.add_argument("--small", type=int, default=500, help=f"tenants of {SMALL_CHUNKS}")
    parser.add_argument("--passages", type=int, help="vectors used; all, where it is not said")
    parser.add_argument("--questions", type=int, default=200, help="questions of each kind a size")
    arguments = parser.parse_args()
    _set_up()
    try:
        _run(arguments)
    finally:
        from django.db import connections

        connections["default"].close()
        connections["default"].close_pool()  # type: ignore[attr-defined]
        parts.pytest_unconfigure()


def _set_up() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragsite.settings")
    django.setup()
    from django.core.management import call_command

    call_command("prepare_database", verbosity=0)
    call_command("migrate", database="owner", verbosity=0)


def _run(arguments: argparse.Namespace) -> None:
    from tests.bench.search_material import load as load_material

    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before", flush=True)
    material = load_material(arguments.passages, QUESTIONS)
    middle, small = _small_tenants(material.passages, arguments.middle, arguments.small)
    large = _grow(material, arguments.large, arguments.questions)
    asked = {
        f"1 of {arguments.large:,}": [large],
        f"{len(middle)} of {MIDDLE_CHUNKS:,}": _asked(material, middle, arguments.questions),
        f"{len(small)} of {SMALL_CHUNKS}": _asked(material, small, arguments.questions),
    }
    _print_sizes(material.questions, {name: each for name, each in asked.items() if each})
    _print_sweep(material.questions, large)
    _print_narrowed(material, large)
    _print_inserts(material.passages, large.loaded)
    print(f"\nload {os.getloadavg()[0]:.1f} after")


# --- Tenants ------------------------------------------------------------------------------------


def _small_tenants(matrix: Halves, middle: int, small: int) -> tuple[list[Loaded], list[Loaded]]:
    """Tenants of one topic each."""
    from tests.bench import search_tenants as tenants

    start = perf_counter()
    everything = np.arange(len(matrix))
    ordered = tenants.by_topic(matrix, everything, 64).tolist()
    fine = tenants.by_topic(matrix, everything[: min(len(matrix), small * SMALL_CHUNKS)], 256)
    made: tuple[list[Loaded], list[Loaded]] = ([], [])
    for at in range(middle):
        made[0].append(tenants.make_tenant(f"middle-{at}", matrix.shape[1]))
        first = at * MIDDLE_CHUNKS % max(1, len(ordered) - MIDDLE_CHUNKS)
        tenants.load(made[0][-1], matrix, ordered[first : first + MIDDLE_CHUNKS])
    for at in range(small):
        made[1].append(tenants.make_tenant(f"small-{at}", matrix.shape[1]))
        places = fine[at * SMALL_CHUNKS : (at + 1) * SMALL_CHUNKS]
        tenants.load(made[1][-1], matrix, places.tolist())
    tenants.analyse()
    print(f"{middle} + {small} tenants loaded in {perf_counter() - start:.0f} s", flush=True)
    return made


def _grow(material: Material, size: int, questions: int) -> Asked:
    """Load the large tenant in steps, and print what its searches cost at each."""
    from apps.retrieval import ann
    from apps.retrieval.models import AnnIndex
    from tests.bench import search_tenants as tenants

    places = np.flatnonzero(np.isin(material.passage_sources, LARGE_SOURCES))
    others = np.flatnonzero(~np.isin(material.passage_sources, LARGE_SOURCES))
    places = np.concatenate([places, others])[:size]
    # Documents of one topic each; steps of any.
    chance = np.random.default_rng(2)
    asked = Asked(
        tenants.make_tenant("large", material.passages.shape[1]),
        *(
            np.flatnonzero(found)[:questions].tolist()
            for found in (
                np.isin(material.question_sources, LARGE_SOURCES),
                ~np.isin(material.question_sources, LARGE_SOURCES),
            )
        ),
    )
    places = chance.permutation(places)
    lines = [("chunks", "plan", "build s", "MiB", *_LATENCY, "recall own", "recall off")]
    done = 0
    for step in [each for each in GROWTH if each < size] + [size]:
        for row in list(AnnIndex.objects.all()):  # it would be filled row by row: measured below
            ann.drop_ann(row)
        added = tenants.by_topic(material.passages, places[done:step], max(1, (step - done) // 400))
        tenants.load(asked.loaded, material.passages, added.tolist())
        done = step
        tenants.analyse()
        ann.tend()
        built = AnnIndex.objects.first()
        plan = _plan(asked.loaded)
        timed = _latency(material.questions, [asked])
        lines.append(
            (
                f"{step:,}",
                plan.kind,
                f"{built.build_s or 0:.1f}" if built else "-",
                f"{(built.size_bytes or 0) / 2**20:.0f}" if built else "-",
                *_latencies(timed),
                f"{_recall(material.questions, asked.loaded, asked.own):.3f}",
                f"{_recall(material.questions, asked.loaded, asked.off):.3f}",
            )
        )
        print(f"  at {step:,} chunks: {', '.join(lines[-1][1:])}", flush=True)
    print("\nOne tenant grows; an HNSW index is built anew at each size above the line")
    print(*table(lines, right=range(1, len(lines[0]))), sep="\n", flush=True)
    return asked


def _asked(material: Material, tenants: Sequence[Loaded], questions: int) -> list[Asked]:
    """Questions whose nearest passage a tenant has, and others; so many of each kind in all."""
    owner: dict[int, list[int]] = {}
    for number, loaded in enumerate(tenants):
        for place in loaded.places:
            owner.setdefault(place, []).append(number)
    nearest = _nearest_places(material, min(len(material.questions), 4 * questions))
    own: dict[int, list[int]] = {}
    for question, place in enumerate(nearest):
        for number in owner.get(place, [])[:1]:
            own.setdefault(number, []).append(question)
    chance = random.Random(1)  # noqa: S311 - the same sample every time
    each = max(1, questions // max(1, len(own)))
    return [
        Asked(
            tenants[number],
            found[:each],
            [
                question
                for question in chance.sample(range(len(nearest)), min(len(nearest), 4 * each))
                if question not in found
            ][:each],
        )
        for number, found in sorted(own.items())
    ]


def _nearest_places(material: Material, questions: int) -> list[int]:
    asked = material.questions[:questions].astype(np.float32)
    best = np.full(questions, -2.0, np.float32)
    place = np.zeros(questions, np.int64)
    for start in range(0, len(material.passages), 20_000):
        scores = asked @ material.passages[start : start + 20_000].astype(np.float32).T
        found = scores.argmax(axis=1)
        better = scores[np.arange(questions), found] > best
        best[better] = scores[np.arange(questions), found][better]
        place[better] = start + found[better]
    return [int(each) for each in place]


# --- Searching ----------------------------------------------------------------------------------


def _plan(loaded: Loaded, **changes: Any) -> SearchPlan:
    from apps.retrieval.options import SearchOptions
    from apps.retrieval.plans import plan_search

    return plan_search(
        index=loaded.index,
        options=replace(SearchOptions(), **changes),
        collection_ids=[loaded.collection.id],
    )


def _search(
    loaded: Loaded, question: Any, plan: SearchPlan | None, documents: Sequence[Any] | None = None
) -> dict[Any, float]:
    from apps.retrieval import vectors
    from apps.retrieval.options import LEG_CANDIDATES
    from apps.retrieval.snapshots import snapshot

    with snapshot(loaded.tenant.id):
        return vectors.search(
            index=loaded.index,
            collection_ids=[loaded.collection.id],
            question=question,
            limit=LEG_CANDIDATES,
            document_ids=documents,
            plan=plan,
        )


def _recall(
    questions: Halves,
    loaded: Loaded,
    chosen: Sequence[int],
    plan: SearchPlan | None = None,
    documents: Sequence[Any] | None = None,
) -> float:
    """Mean recall@K against exact search, of searches as the product makes them."""
    from apps.retrieval.recall import recall_at

    plan = plan or _plan(loaded)
    shares = [
        recall_at(
            K,
            _search(loaded, questions[each], plan, documents),
            _truth(questions, loaded, each, documents),
        )
        for each in chosen
    ]
    known = [share for share in shares if share is not None]
    return statistics.fmean(known) if known else float("nan")


def _truth(
    questions: Halves, loaded: Loaded, question: int, documents: Sequence[Any] | None
) -> dict[Any, float]:
    """What exact search finds; searched once for each question and size of the tenant."""
    key = (loaded.tenant.slug, len(loaded.places), question, len(documents or ()))
    if key not in _truths:
        _truths[key] = _search(loaded, questions[question], None, documents)
    return _truths[key]


_truths: dict[tuple[str, int, int, int], dict[Any, float]] = {}


def _latency(questions: Halves, asked: Sequence[Asked], plan: SearchPlan | None = None) -> Timed:
    """Each question through `vectors.search` and sent directly, in turns; warmed up once."""
    from apps.retrieval import vectors
    from apps.retrieval.options import LEG_CANDIDATES
    from apps.retrieval.snapshots import snapshot

    timed = Timed([], [])
    with _direct() as direct:
        for warm in (True, False):
            for tenant in asked:
                used = plan or _plan(tenant.loaded)
                for number, question in enumerate([*tenant.own, *tenant.off]):
                    where: dict[str, Any] = {
                        "index": tenant.loaded.index,
                        "collection_ids": [tenant.loaded.collection.id],
                        "question": questions[question].astype(np.float32),
                        "limit": LEG_CANDIDATES,
                        "plan": used,
                    }
                    sent = vectors.statements(**where)

                    def through_site(where: Any = where) -> float:
                        start = perf_counter()
                        vectors.search(**where)
                        return (perf_counter() - start) * 1000

                    def directly(sent: Any = sent) -> float:
                        start = perf_counter()
                        for statement in sent:
                            cursor = direct.execute(statement.sql, statement.parameters)
                            cursor.fetchall()
                        return (perf_counter() - start) * 1000

                    with snapshot(tenant.loaded.tenant.id), direct.transaction():
                        # Whoever goes second finds the pages in the cache.
                        if number % 2:
                            pair = through_site(), directly()
                        else:
                            pair = (directly(), through_site())[::-1]
                    if not warm:
                        timed.site.append(pair[0])
                        timed.direct.append(pair[1])
    return timed


@contextmanager
def _direct() -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(
        os.environ["DATABASE_URL"],
        cursor_factory=psycopg.ClientCursor,
        prepare_threshold=None,
        autocommit=True,
    ) as connection:
        yield connection


def _explained(questions: Halves, asked: Asked) -> str:
    """What PostgreSQL answers the first question's search with."""
    from django.db import connection

    from apps.retrieval import vectors
    from apps.retrieval.options import LEG_CANDIDATES
    from apps.retrieval.snapshots import snapshot

    sent = vectors.statements(
        index=asked.loaded.index,
        collection_ids=[asked.loaded.collection.id],
        question=questions[0],
        limit=LEG_CANDIDATES,
        plan=_plan(asked.loaded),
    )
    with snapshot(asked.loaded.tenant.id), connection.cursor() as cursor:
        *before, query = sent[:2] if len(sent) > 1 else sent
        for statement in before:
            cursor.execute(statement.sql, statement.parameters)
        cursor.execute(f"EXPLAIN {query.sql}", query.parameters)
        words = "\n".join(row[0] for row in cursor.fetchall()).split()
    used = [words[at + 1] for at, word in enumerate(words) if word in ("using", "on")]
    return "HNSW" if any(each.startswith("ann_") for each in used) else "btree"


# --- Reports ------------------------------------------------------------------------------------

_LATENCY = ("p50 ms", "p95 ms", "direct p50", "direct p95", "ratio p95")


def _latencies(timed: Timed) -> tuple[str, ...]:
    site, direct = _quantiles(timed.site), _quantiles(timed.direct)
    return (*(f"{each:.2f}" for each in (*site, *direct)), f"{site[1] / direct[1]:.2f}")


def _quantiles(values: Sequence[float]) -> tuple[float, float]:
    """p50 and p95."""
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return cuts[9], cuts[18]


def _print_sizes(questions: Halves, sizes: dict[str, list[Asked]]) -> None:
    lines = [("tenants", "plan", "by", "questions", "recall own", "recall off", *_LATENCY)]
    for name, asked in sizes.items():
        own = [(each, len(each.own)) for each in asked if each.own]
        off = [(each, len(each.off)) for each in asked if each.off]
        lines.append(
            (
                name,
                _plan(asked[0].loaded).kind,
                ",".join(sorted({_explained(questions, each) for each in asked})),
                str(sum(n for _, n in own + off)),
                _weighted([(_recall(questions, each.loaded, each.own), n) for each, n in own]),
                _weighted([(_recall(questions, each.loaded, each.off), n) for each, n in off]),
                *_latencies(_latency(questions, asked)),
            )
        )
    print(f"\nEach size with the defaults; recall@{K} of 100 rows asked for, against exact search")
    print(*table(lines, right=range(3, len(lines[0]))), sep="\n")
    print(f"targets: recall {TARGET_RECALL}, ratio {TARGET_RATIO}", flush=True)


def _weighted(pairs: Sequence[tuple[float, int]]) -> str:
    total = sum(count for _, count in pairs)
    return f"{sum(share * count for share, count in pairs) / total:.3f}" if total else "-"


def _print_sweep(questions: Halves, asked: Asked) -> None:
    from apps.retrieval import ann

    lines = [("index", "build s", "MiB", "ef_search", "recall own", "recall off", *_LATENCY[:2])]
    if _plan(asked.loaded).kind == "exact":
        return
    for storage, m, construction in (
        ("halfvec", 16, 64),
        ("halfvec", 16, 128),
        ("halfvec", 24, 128),
        ("bit", 16, 64),
    ):
        built = ann.ensure_ann(
            index=asked.loaded.index,
            storage="bit" if storage == "bit" else "halfvec",
            m=m,
            ef_construction=construction,
        )
        options = {"storage": storage, "m": m, "ef_construction": construction}
        for ef_search in EF_SEARCHES:
            plan = _plan(asked.loaded, ef_search=ef_search, **options)
            timed = _latency(questions, [asked], plan)
            lines.append(
                (
                    f"{storage} m {m} ef_construction {construction}",
                    f"{built.build_s or 0:.1f}",
                    f"{(built.size_bytes or 0) / 2**20:.0f}",
                    str(ef_search),
                    f"{_recall(questions, asked.loaded, asked.own, plan):.3f}",
                    f"{_recall(questions, asked.loaded, asked.off, plan):.3f}",
                    *(f"{each:.2f}" for each in _quantiles(timed.site)),
                )
            )
    print("\nThe large tenant, by index and ef_search")
    print(*table(lines, right=range(1, len(lines[0]))), sep="\n", flush=True)


def _print_narrowed(material: Material, asked: Asked) -> None:
    """Searches of some of the large tenant's documents, which are about some of its topics."""
    if _plan(asked.loaded).kind == "exact":
        return
    documents = asked.loaded.document_ids
    lines = [
        ("part", "chunks", "recall own", "recall off", "HNSW p50 ms", "p95", "exact p50", "p95")
    ]
    plan = _plan(asked.loaded)
    some = replace(asked, own=asked.own[:NARROWED_ASKED], off=asked.off[:NARROWED_ASKED])
    for share in NARROWED_SHARES:
        part = documents[: int(share * len(documents))]
        spent: dict[bool, list[float]] = {True: [], False: []}
        for question in [*some.own, *some.off]:
            for hnsw in (True, False):
                start = perf_counter()
                _search(asked.loaded, material.questions[question], plan if hnsw else None, part)
                spent[hnsw].append((perf_counter() - start) * 1000)
        lines.append(
            (
                f"{share:.0%}",
                f"{int(share * len(asked.loaded.places)):,}",
                f"{_recall(material.questions, asked.loaded, some.own, plan, part):.3f}",
                f"{_recall(material.questions, asked.loaded, some.off, plan, part):.3f}",
                *(f"{each:.1f}" for hnsw in (True, False) for each in _quantiles(spent[hnsw])),
            )
        )
    print("\nA part of the large tenant, through its HNSW index and exactly")
    print(*table(lines, right=range(1, len(lines[0]))), sep="\n", flush=True)


def _print_inserts(matrix: Halves, loaded: Loaded) -> None:
    """The rate at which vectors are added with HNSW indexes and without."""
    from apps.retrieval import ann
    from apps.retrieval.models import AnnIndex
    from tests.bench import search_tenants as tenants

    added = list(range(INSERTED))
    rows = [("vectors added a second", "")]
    for row in list(AnnIndex.objects.exclude(storage="halfvec", m=16, ef_construction=64)):
        ann.drop_ann(row)
    for name in ("with the HNSW index", "without"):
        start = perf_counter()
        tenants.load(loaded, matrix, added)
        rows.append((name, f"{INSERTED / (perf_counter() - start):.0f}"))
        for row in list(AnnIndex.objects.all()):
            ann.drop_ann(row)
    print()
    print(*table(rows, right=(1,)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
