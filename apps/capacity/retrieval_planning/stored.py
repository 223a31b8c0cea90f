"""What this site's own passages take today, table by table: the planner's figures for text."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from apps.documents.models import Chunk, Document, Page
from apps.retrieval.models import ChunkTerms, TermFrequency

LEAST_PASSAGES = 1000  # with fewer, empty pages weigh more than rows
_TEXT = (Document, Page, Chunk)
_WORDS = (ChunkTerms, TermFrequency)


@dataclass(frozen=True)
class Stored:
    """Bytes a passage with all their indexes, over `passages` of all tenants."""

    passages: int
    text_bytes: float  # documents, pages and passages
    word_bytes: float  # BM25 rows and document frequencies


def stored_bytes() -> Stored | None:
    """Figures of all tenants together, no text; None while there are too few passages."""
    with connection.cursor() as cursor:
        # The planner's own count: a count of rows would be that of one tenant's policy.
        cursor.execute(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass",
            [ChunkTerms._meta.db_table],
        )
        passages = int(cursor.fetchone()[0])
    if passages < LEAST_PASSAGES:
        return None
    text, words = (
        sum(_size(model._meta.db_table) for model in models) / passages
        for models in (_TEXT, _WORDS)
    )
    return Stored(passages, text, words)


def _size(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_total_relation_size(%s::regclass)", [table])
        return int(cursor.fetchone()[0])
