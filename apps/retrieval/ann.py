"""HNSW indexes of large tenants: one over each embedding index that questions are searched in.

A row of `AnnIndex` is the wish; PostgreSQL's catalogue is the truth. `tend` makes them agree and
may be killed at any point: what is half built is invalid in the catalogue, and built anew.

Building and dropping hold one advisory lock of the site. It belongs to the database session that
does the work, so it lasts exactly as long: also where the worker that asked has died, and its
index is still being built. Two builds at once on a table would wait for each other for good.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection
from django.db.models import Q, Sum
from django.utils import timezone
from psycopg import sql

from apps.retrieval import vectors
from apps.retrieval.errors import AnnBuildFailed
from apps.retrieval.models import AnnIndex, CollectionStatistics, EmbeddingIndex, IndexBuild
from apps.retrieval.options import EF_CONSTRUCTION, M, Storage, options_for

logger = logging.getLogger(__name__)

# A tenant near the line is not built for and dropped again with every document.
SHRUNK = 0.80
# What was built to be compared and is not searched with goes after this time.
EXTRA_KEPT = timedelta(hours=24)
RETRY_AFTER = timedelta(minutes=15)
_LOCK = 7_201_963_411  # one number of the database's, for all who build
# The builder's connection is looked at so often: an index for a dead worker is given up.
_CLIENT_CHECK = "2s"
_MEMORY_LEAST_KB = 64 * 1024
# Embedding indexes that a switch may put in force. While one is still being filled it gets no HNSW
# index by itself; whoever is about to switch asks for it.
_KEPT_IN_STEP = ("ready", "switched", "back")
_OPEN = (*_KEPT_IN_STEP, "building", "paused")

Session = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True)
class AnnState:
    """An HNSW index as a page shows it."""

    ann: AnnIndex
    progress: float | None  # 0 to 1 while it is being built, as far as that is known


def tend() -> None:
    """Build the HNSW indexes that are wanted, and drop those that are not. Idempotent.

    Returns at once where another worker is at it. Raises AnnBuildFailed where its connection is
    lost; any other failure is in the row, for later.
    """
    with _session() as session:
        if not _try_lock(session):
            return
        for index in _wanted_indexes():
            options = options_for(index.tenant_id)
            request_ann(
                index=index,
                storage=options.storage,
                m=options.m,
                ef_construction=options.ef_construction,
            )
        _drop_unwanted(session)
        _doubt_missing(session)
        while (ann := _next_to_build()) is not None:
            _build(session, ann)
        _drop_orphans(session)


def request_ann(
    *,
    index: EmbeddingIndex,
    storage: Storage = "halfvec",
    m: int = M,
    ef_construction: int = EF_CONSTRUCTION,
) -> AnnIndex:
    """Wish for an HNSW index: `tend` will build it. The one that is there, where it is."""
    ann, _ = AnnIndex.objects.get_or_create(
        tenant_id=index.tenant_id,
        index=index,
        storage=storage,
        m=m,
        ef_construction=ef_construction,
    )
    return ann


def ensure_ann(
    *,
    index: EmbeddingIndex,
    storage: Storage = "halfvec",
    m: int = M,
    ef_construction: int = EF_CONSTRUCTION,
) -> AnnIndex:
    """The HNSW index, ready: built now where it is not, after whatever else is being built.

    Several may stand side by side over one embedding index; a plan names the one it uses. Raises
    AnnBuildFailed. Not within a transaction: a build waits for all that are open, for ever for its
    own caller's.
    """
    _refuse_transaction()
    ann = request_ann(index=index, storage=storage, m=m, ef_construction=ef_construction)
    with _session() as session:
        _lock(session)
        if not _is_valid(session, ann):
            _build(session, ann)
    ann = AnnIndex.objects.filter(id=ann.id).first() or ann
    if ann.state != AnnIndex.State.READY:
        raise AnnBuildFailed(ann.error_code or "gone")
    return ann


def drop_ann(ann: AnnIndex) -> None:
    """Drop the index, after the searches that use it. Not within a transaction."""
    _refuse_transaction()
    with _session() as session:
        _lock(session)
        _drop(session, ann)


def ann_states(tenant_id: uuid.UUID) -> list[AnnState]:
    """The tenant's HNSW indexes, newest first, with the progress of those being built."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT relname, tuples_done FROM pg_stat_progress_create_index
            JOIN pg_class ON pg_class.oid = index_relid
            """
        )
        done = dict(cursor.fetchall())
    return [
        AnnState(ann, _progress(ann, done.get(name_of(ann))))
        for ann in AnnIndex.objects.filter(tenant_id=tenant_id).order_by("-id")
    ]


def name_of(ann: AnnIndex) -> str:
    """The index's name in the schema `search`."""
    return f"ann_{ann.id}"


def _progress(ann: AnnIndex, tuples_done: int | None) -> float | None:
    if ann.state != AnnIndex.State.BUILDING or tuples_done is None:
        return None
    return min(1.0, tuples_done / max(1, ann.chunk_count))


def _wanted_indexes() -> list[EmbeddingIndex]:
    """The embedding indexes of tenants above the line that are searched in, or soon may be."""
    counts = _chunk_counts()
    large = [key for key, count in counts.items() if count > settings.HNSW_ABOVE_CHUNKS]
    builds = IndexBuild.objects.filter(state__in=_KEPT_IN_STEP)
    rows = EmbeddingIndex.objects.filter(tenant_id__in={tenant for tenant, _ in large}).filter(
        Q(active=True) | Q(id__in=builds.values("source")) | Q(id__in=builds.values("target"))
    )
    return [index for index in rows if (index.tenant_id, index.generation) in large]


def _drop_unwanted(session: Session) -> None:
    counts = _chunk_counts()
    builds = IndexBuild.objects.filter(state__in=_OPEN)
    in_builds = {each for pair in builds.values_list("source", "target") for each in pair}
    for ann in list(AnnIndex.objects.select_related("index")):
        chunks = counts.get((ann.tenant_id, ann.index.generation), 0)
        small = chunks < SHRUNK * settings.HNSW_ABOVE_CHUNKS
        used = ann.index.active or ann.index_id in in_builds
        if small or not used or _is_left_over(ann):
            _drop(session, ann)


def _is_left_over(ann: AnnIndex) -> bool:
    """It was built to be compared, long ago, and the one that is searched with is ready."""
    options = options_for(ann.tenant_id)
    own = {
        "storage": options.storage,
        "m": options.m,
        "ef_construction": options.ef_construction,
    }
    return (
        any(getattr(ann, name) != value for name, value in own.items())
        and ann.created_at < timezone.now() - EXTRA_KEPT
        and AnnIndex.objects.filter(
            tenant_id=ann.tenant_id, index_id=ann.index_id, state=AnnIndex.State.READY, **own
        ).exists()
    )


def _doubt_missing(session: Session) -> None:
    """What is said to be ready and is not in the catalogue is to be built again."""
    for ann in AnnIndex.objects.filter(state=AnnIndex.State.READY):
        if not _is_valid(session, ann):
            AnnIndex.objects.filter(id=ann.id).update(state=AnnIndex.State.BUILDING)


def _next_to_build() -> AnnIndex | None:
    due = Q(state=AnnIndex.State.BUILDING) | Q(
        state=AnnIndex.State.FAILED, lease_expires_at__lt=timezone.now()
    )
    return AnnIndex.objects.filter(due).order_by("id").first()


def _build(session: Session, ann: AnnIndex) -> None:
    """Build it in the session that holds the lock; the row says how it ended."""
    index = EmbeddingIndex.objects.filter(tenant_id=ann.tenant_id, id=ann.index_id).first()
    if index is None:
        return _drop(session, ann)
    chunks = _chunk_counts(ann.tenant_id).get((ann.tenant_id, index.generation), 0)
    _update(ann, state=AnnIndex.State.BUILDING, chunk_count=chunks)
    start = perf_counter()
    try:
        if not _is_valid(session, ann):
            _drop_from_database(session, name_of(ann))  # a killed build's
            _create(session, ann, index, chunks)
    except psycopg.Error as exc:
        if session.closed:  # the row still says that it is to be built
            raise AnnBuildFailed("the connection was lost") from exc
        code = f"sql_{exc.sqlstate or 'connection'}"
        logger.warning("HNSW index %s could not be built: %s", ann.id, code)
        _update(
            ann,
            state=AnnIndex.State.FAILED,
            error_code=code,
            lease_expires_at=timezone.now() + RETRY_AFTER,
        )
        return None
    kept = _update(
        ann,
        state=AnnIndex.State.READY,
        error_code="",
        lease_expires_at=None,
        size_bytes=_size(session, ann),
        build_s=perf_counter() - start,
    )
    if not kept:  # the tenant, or the embedding index, was deleted meanwhile
        _drop_from_database(session, name_of(ann))
    logger.info("HNSW index %s over %d chunks is ready", ann.id, chunks)
    return None


def _create(session: Session, ann: AnnIndex, index: EmbeddingIndex, chunks: int) -> None:
    """CREATE INDEX CONCURRENTLY on the partition: searches and writes go on meanwhile."""
    memory_kb = _memory_kb(ann, index, chunks)
    session.execute("SELECT set_config('maintenance_work_mem', %s, false)", [f"{memory_kb}kB"])
    session.execute(
        "SELECT set_config('max_parallel_maintenance_workers', %s, false)",
        [str(settings.ANN_BUILD_WORKERS)],
    )
    bits = ann.storage == "bit"
    session.execute(
        sql.SQL(
            "CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw ({expression} {operators}) "
            "WITH (m = {m}, ef_construction = {ef}) "
            "WHERE tenant_id = {tenant} AND index_id = {index} AND {mark}"
        ).format(
            name=sql.Identifier(name_of(ann)),
            table=sql.Identifier("search", f"chunkvector_{index.slot}"),
            expression=sql.SQL(vectors.bits_of(index) if bits else vectors.halves_of(index)),
            operators=sql.SQL("bit_hamming_ops" if bits else "halfvec_ip_ops"),
            m=sql.Literal(ann.m),
            ef=sql.Literal(ann.ef_construction),
            tenant=sql.Literal(str(ann.tenant_id)),
            index=sql.Literal(str(ann.index_id)),
            mark=sql.SQL(vectors.mark_of(ann.id)),
        )
    )


def _memory_kb(ann: AnnIndex, index: EmbeddingIndex, chunks: int) -> int:
    """What the graph takes: vectors, 2m neighbours of 16 bytes each, and a third besides."""
    vector = index.dimensions / 8 if ann.storage == "bit" else index.dimensions * 2
    needed = chunks * (vector + 2 * ann.m * 16 + 128) * 1.33 / 1024
    most = settings.ANN_BUILD_MEMORY_BYTES // 1024
    return int(min(most, max(_MEMORY_LEAST_KB, needed)))


def _update(ann: AnnIndex, **values: Any) -> bool:
    return AnnIndex.objects.filter(tenant_id=ann.tenant_id, id=ann.id).update(**values) == 1


def _drop(session: Session, ann: AnnIndex) -> None:
    """The row first: no search is planned with it any more."""
    AnnIndex.objects.filter(tenant_id=ann.tenant_id, id=ann.id).delete()
    _drop_from_database(session, name_of(ann))


def _drop_orphans(session: Session) -> None:
    """Indexes whose row went with a tenant, or with an embedding index."""
    known = set(AnnIndex.objects.values_list("id", flat=True))
    rows = session.execute(
        "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = 'search' AND relkind = 'i' AND relname ~ '^ann_[0-9]+$'"
    )
    for (name,) in rows.fetchall():
        # Asked again: it may have been wished for since.
        if int(name[4:]) not in known and not AnnIndex.objects.filter(id=int(name[4:])).exists():
            _drop_from_database(session, name)


def _drop_from_database(session: Session, name: str) -> None:
    session.execute(
        sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier("search", name))
    )


def _is_valid(session: Session, ann: AnnIndex) -> bool:
    """Whether it is whole in the catalogue, and this embedding index's."""
    row = session.execute(
        "SELECT indisvalid AND strpos(pg_get_expr(indpred, indrelid), %s) > 0 FROM pg_index "
        "WHERE indexrelid = to_regclass(%s)",
        [str(ann.index_id), f"search.{name_of(ann)}"],
    ).fetchone()
    return bool(row and row[0])


def _size(session: Session, ann: AnnIndex) -> int:
    row = session.execute(
        "SELECT pg_relation_size(to_regclass(%s))", [f"search.{name_of(ann)}"]
    ).fetchone()
    return int(row[0]) if row else 0


def _chunk_counts(tenant_id: uuid.UUID | None = None) -> dict[tuple[uuid.UUID, int], int]:
    """Searchable chunks by tenant and generation."""
    rows = CollectionStatistics.objects.all()
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    counted = rows.values_list("tenant_id", "generation").annotate(n=Sum("chunk_count"))
    return {(tenant, generation): int(n) for tenant, generation, n in counted}


@contextmanager
def _session() -> Iterator[Session]:
    """A connection outside any transaction, whose settings and lock end with it."""
    parameters = connection.get_connection_params()
    with psycopg.connect(**parameters, autocommit=True) as session:
        session.execute(
            "SELECT set_config('client_connection_check_interval', %s, false)", [_CLIENT_CHECK]
        )
        yield session


def _try_lock(session: Session) -> bool:
    row = session.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK]).fetchone()
    return bool(row and row[0])


def _lock(session: Session) -> None:
    """Asked for again and again: a session that waits within a statement holds up the builder."""
    while not _try_lock(session):
        time.sleep(0.5)


def _refuse_transaction() -> None:
    if connection.in_atomic_block:
        raise RuntimeError("An HNSW index cannot be built or dropped within a transaction.")
