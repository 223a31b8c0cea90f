"""A table of the shape that the site searches, to be filled, searched and dropped.

It stands in the schema `search`, which is the application role's own, and is unlogged. Nothing
refers to it. Who measures holds an advisory lock of a session: one at a time, and what a killed
measurement left behind is dropped by the next.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import psycopg
from django.conf import settings
from django.db import connection
from psycopg import sql

from apps.capacity.errors import CapacityError
from apps.capacity.retrieval_planning.material import Vectors
from apps.retrieval import vectors as site
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.plans import SearchPlan

TABLE, SITE_TABLE = "search.measure_vectors", "search.chunkvector"
_HNSW = "measure_hnsw"
_LOCK = 7_201_963_412  # one number of the database's, for all who measure
_CREATE = f"""
    DROP TABLE IF EXISTS {TABLE};
    CREATE UNLOGGED TABLE {TABLE} (LIKE {SITE_TABLE} INCLUDING DEFAULTS);
    CREATE UNIQUE INDEX ON {TABLE} (tenant_id, index_id, chunk_id, slot);
    CREATE INDEX ON {TABLE} (tenant_id, index_id, collection_id);
    CREATE INDEX ON {TABLE} (tenant_id, document_id);
    CREATE INDEX ON {TABLE} (tenant_id, chunk_id);
"""
_COPY = f"""
    COPY {TABLE} (tenant_id, index_id, collection_id, document_id, chunk_id, embedding) FROM STDIN
"""
_DOCUMENT = 20  # passages

Session = psycopg.Connection[Any]


class MeasurementRunning(CapacityError):
    """Somebody else measures search."""

    code = "measurement_running"
    retryable = True

    def __init__(self) -> None:
        super().__init__("Search is being measured already. Wait for that to end.")


class Scratch:
    """The table while it is there, as the one index of one tenant with one collection."""

    def __init__(self, session: Session, dimensions: int) -> None:
        self._session = session
        self._collection = uuid.uuid4()
        self.index = EmbeddingIndex(
            id=uuid.uuid4(), tenant_id=uuid.uuid4(), dimensions=dimensions, slot=0
        )
        self.count = 0

    def add(self, vectors: Vectors) -> None:
        """More passages, in documents of 20."""
        with self._session.cursor() as cursor, cursor.copy(_COPY) as copy:
            document = uuid.uuid4()
            for number, vector in enumerate(vectors):
                if number % _DOCUMENT == 0:
                    document = uuid.uuid4()
                place = (self.index.tenant_id, self.index.id, self._collection, document)
                copy.write_row((*place, uuid.uuid4(), _text(vector)))
        self._session.execute(f"ANALYZE {TABLE}")
        self.count += len(vectors)

    def search(
        self, question: Vectors, *, limit: int, plan: SearchPlan | None = None
    ) -> tuple[list[uuid.UUID], float]:
        """What the site's own statements find, nearest first, and the milliseconds they took."""
        sent = site.statements(
            index=self.index,
            collection_ids=[self._collection],
            question=question,
            limit=limit,
            plan=plan,
        )
        found: list[tuple[uuid.UUID, float]] = []
        start = perf_counter()
        with self._session.transaction():
            for statement in sent:
                here = statement.sql.replace(SITE_TABLE, TABLE)
                cursor = self._session.execute(here.encode(), statement.parameters)
                if len(sent) == 1 or statement is sent[1]:
                    found = cursor.fetchall()
        ms = (perf_counter() - start) * 1000
        return [chunk for chunk, _ in sorted(found, key=lambda row: row[::-1])], ms

    def build_hnsw(self, *, m: int, ef_construction: int, memory_kb: int) -> tuple[float, int]:
        """Seconds that the build took, and the index's bytes."""
        self.drop_hnsw()
        self._session.execute(
            "SELECT set_config('maintenance_work_mem', %s, false), "
            "set_config('max_parallel_maintenance_workers', %s, false)",
            [f"{memory_kb}kB", str(settings.ANN_BUILD_WORKERS)],
        )
        start = perf_counter()
        self._session.execute(
            sql.SQL(
                "CREATE INDEX {name} ON {table} USING hnsw ({expression} halfvec_ip_ops) "
                "WITH (m = {m}, ef_construction = {ef}) "
                "WHERE tenant_id = {tenant} AND index_id = {index} AND {mark}"
            ).format(
                name=sql.Identifier(_HNSW),
                table=sql.SQL(TABLE),
                expression=sql.SQL(site.halves_of(self.index)),
                m=sql.Literal(m),
                ef=sql.Literal(ef_construction),
                tenant=sql.Literal(str(self.index.tenant_id)),
                index=sql.Literal(str(self.index.id)),
                mark=sql.SQL(site.mark_of(0)),
            )
        )
        return perf_counter() - start, self.size_of(f"search.{_HNSW}")

    def drop_hnsw(self) -> None:
        self._session.execute(f"DROP INDEX IF EXISTS search.{_HNSW}")

    def size_of(self, relation: str = TABLE) -> int:
        """Bytes of a relation itself; of the table, with what is stored beside it."""
        row = self._session.execute("SELECT pg_table_size(to_regclass(%s))", [relation]).fetchone()
        return int(row[0] or 0) if row else 0

    def cpu_s(self) -> float | None:
        """Seconds of CPU that the database's process has taken; None where it is elsewhere."""
        pid = self._session.info.backend_pid
        try:
            name = Path(f"/proc/{pid}/comm").read_text()
            # In nanoseconds, and exact once the process waits for us; /proc/…/stat counts in ticks
            # of 10 ms, longer than a search.
            ran_ns = Path(f"/proc/{pid}/schedstat").read_text().split()[0]
        except (OSError, IndexError):
            return None
        return int(ran_ns) / 1e9 if name.startswith("postgres") else None


@contextmanager
def scratch_table(dimensions: int) -> Iterator[Scratch]:
    """The table, empty; dropped at the end, however that comes. Raises MeasurementRunning."""
    parameters = connection.get_connection_params()
    parameters.pop("cursor_factory", None)
    with psycopg.connect(
        **parameters, autocommit=True, cursor_factory=psycopg.ClientCursor
    ) as session:
        row = session.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK]).fetchone()
        if not row or not row[0]:
            raise MeasurementRunning
        session.prepare_threshold = None
        # One search, one core: when many are asked at once, no core is free for a second worker.
        session.execute("SET max_parallel_workers_per_gather = 0")
        session.execute(_CREATE)
        try:
            yield Scratch(session, dimensions)
        finally:
            if not session.closed:
                session.execute(f"DROP TABLE IF EXISTS {TABLE}")


def _text(vector: Vectors) -> str:
    halves: Sequence[float] = np.asarray(vector, np.float16).tolist()
    return f"[{','.join(['%.5g'] * len(halves))}]" % tuple(halves)
