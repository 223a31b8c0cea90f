"""The rows that are searched. They hold no readable text and no policy: queries name the tenant.

Row-level security makes `<=>`, `<#>` and `@@` post-filters (they are not leakproof), which costs
recall and time; the text of a hit is fetched afterwards under row-level security.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.search import SearchVectorField
from django.db import models
from pgvector.django import HalfVectorField, SparseVectorField

from apps.documents.models import Chunk, Collection, Document
from apps.retrieval.models.indexes import EmbeddingIndex
from apps.tenants.models import Tenant


class ChunkVector(models.Model):
    """A chunk's embedding in one index. Unit length, so inner product is cosine."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    index = models.ForeignKey(
        EmbeddingIndex, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    collection = models.ForeignKey(
        Collection, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    document = models.ForeignKey(Document, models.DO_NOTHING, db_constraint=False, db_index=False)
    chunk = models.ForeignKey(Chunk, models.DO_NOTHING, db_constraint=False, db_index=False)
    # No dimension in the type: one table serves every model; queries and HNSW indexes cast.
    embedding = HalfVectorField()
    slot = models.PositiveSmallIntegerField(default=0)  # the partition: its index's

    class Meta:
        # Partitioned by slot. The schema's tables are the application role's own, so that workers
        # can build and drop indexes and partitions there; nothing in it is readable text.
        db_table = '"search"."chunkvector"'
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "index", "chunk", "slot"], name="chunk_vector_once"
            ),
        ]
        indexes: ClassVar = [
            # Exact search reads one tenant's rows of one index, narrowed to collections.
            models.Index(fields=["tenant", "index", "collection"], name="chunk_vector_exact"),
            # Deleting a document cascades here.
            models.Index(fields=["tenant", "document"], name="chunk_vector_document"),
            models.Index(fields=["tenant", "chunk"], name="chunk_vector_chunk"),
        ]

    def __str__(self) -> str:
        return f"vector of {self.chunk_id}"


class ChunkTerms(models.Model):
    """A chunk's BM25 row: hashed stems to find it by, and their weights to score it with."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    collection = models.ForeignKey(
        Collection, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    document = models.ForeignKey(Document, models.DO_NOTHING, db_constraint=False, db_index=False)
    chunk = models.ForeignKey(Chunk, models.DO_NOTHING, db_constraint=False, db_index=False)
    generation = models.PositiveSmallIntegerField(default=0, db_default=0)  # its chunk's
    length = models.PositiveIntegerField()  # terms in the chunk, repeats included
    terms = SearchVectorField()  # lexemes are term ids, not words
    weights = SparseVectorField()  # term id -> tf-saturated, length-normalised weight

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "chunk"], name="chunk_terms_once"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["tenant", "collection", "generation"], name="chunk_terms_collection"
            ),
            # Deleting a document cascades here.
            models.Index(fields=["tenant", "document"], name="chunk_terms_document"),
        ]

    def __str__(self) -> str:
        return f"terms of {self.chunk_id}"


class StagedChunk(models.Model):
    """A chunk of a large document that is not ready yet: its rows-to-be in both search tables.

    Unlogged (see the migration): a crash of the database costs the work, never the truth.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    document = models.ForeignKey(Document, models.DO_NOTHING, db_constraint=False, db_index=False)
    chunk = models.ForeignKey(Chunk, models.DO_NOTHING, db_constraint=False, db_index=False)
    index = models.ForeignKey(
        EmbeddingIndex, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    embedding = HalfVectorField()
    length = models.PositiveIntegerField()
    terms = SearchVectorField()
    weights = SparseVectorField()
    average = models.FloatField()  # the average length these weights were made with

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "chunk", "index"], name="staged_chunk_once"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "document", "index"], name="staged_chunk_document"),
        ]

    def __str__(self) -> str:
        return f"staged {self.chunk_id}"


class CollectionStatistics(models.Model):
    """BM25's N and average length of a collection, kept by the indexing job."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    collection = models.ForeignKey(
        Collection, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    generation = models.PositiveSmallIntegerField(default=0, db_default=0)  # its chunks'
    chunk_count = models.PositiveIntegerField(default=0)
    total_length = models.PositiveBigIntegerField(default=0)
    # The average the stored weights were computed with; far from the true one, they are redone.
    weighted_with_average = models.FloatField(default=0.0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "collection", "generation"], name="collection_statistics_once"
            ),
        ]

    def __str__(self) -> str:
        return f"statistics of {self.collection_id}"


class TermFrequency(models.Model):
    """In how many chunks of a collection a term occurs."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False)
    collection = models.ForeignKey(
        Collection, models.DO_NOTHING, db_constraint=False, db_index=False
    )
    generation = models.PositiveSmallIntegerField(default=0, db_default=0)  # its chunks'
    term = models.BigIntegerField()
    chunk_count = models.PositiveIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "collection", "generation", "term"], name="term_frequency_once"
            ),
        ]

    def __str__(self) -> str:
        return f"term {self.term} in {self.collection_id}"
