"""Statistics per generation of chunks, markers of what is indexed, and the locks of new tables."""

import importlib

from django.db import migrations

from apps.tenants.rls import row_level_security, tenant_foreign_key

FUNCTIONS = """
CREATE OR REPLACE FUNCTION retrieval_count_added_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO retrieval_collectionstatistics
        (tenant_id, collection_id, generation, chunk_count, total_length, weighted_with_average)
    SELECT tenant_id, collection_id, generation, count(*), sum(length), 0 FROM changed
    GROUP BY tenant_id, collection_id, generation ORDER BY tenant_id, collection_id, generation
    ON CONFLICT (tenant_id, collection_id, generation) DO UPDATE SET
        chunk_count = retrieval_collectionstatistics.chunk_count + EXCLUDED.chunk_count,
        total_length = retrieval_collectionstatistics.total_length + EXCLUDED.total_length;

    INSERT INTO retrieval_termfrequency (tenant_id, collection_id, generation, term, chunk_count)
    SELECT tenant_id, collection_id, generation, lexeme::bigint, count(*)
    FROM changed, unnest(tsvector_to_array(terms)) AS lexeme
    GROUP BY tenant_id, collection_id, generation, lexeme::bigint
    ORDER BY tenant_id, collection_id, generation, lexeme::bigint
    ON CONFLICT (tenant_id, collection_id, generation, term) DO UPDATE SET
        chunk_count = retrieval_termfrequency.chunk_count + EXCLUDED.chunk_count;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION retrieval_count_removed_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM retrieval_collectionstatistics
    WHERE (tenant_id, collection_id, generation) IN (
        SELECT tenant_id, collection_id, generation FROM changed)
    ORDER BY tenant_id, collection_id, generation FOR UPDATE;

    UPDATE retrieval_collectionstatistics AS kept SET
        chunk_count = kept.chunk_count - gone.chunks,
        total_length = kept.total_length - gone.length
    FROM (
        SELECT tenant_id, collection_id, generation, count(*) AS chunks, sum(length) AS length
        FROM changed GROUP BY tenant_id, collection_id, generation
    ) AS gone
    WHERE kept.tenant_id = gone.tenant_id AND kept.collection_id = gone.collection_id
        AND kept.generation = gone.generation;

    WITH gone AS (
        SELECT tenant_id, collection_id, generation, lexeme::bigint AS term, count(*) AS chunks
        FROM changed, unnest(tsvector_to_array(terms)) AS lexeme
        GROUP BY tenant_id, collection_id, generation, lexeme::bigint
    ), counted AS (
        UPDATE retrieval_termfrequency AS kept SET chunk_count = kept.chunk_count - gone.chunks
        FROM gone
        WHERE kept.tenant_id = gone.tenant_id AND kept.collection_id = gone.collection_id
            AND kept.generation = gone.generation AND kept.term = gone.term
            AND kept.chunk_count > gone.chunks
    )
    DELETE FROM retrieval_termfrequency AS kept USING gone
    WHERE kept.tenant_id = gone.tenant_id AND kept.collection_id = gone.collection_id
        AND kept.generation = gone.generation AND kept.term = gone.term
        AND kept.chunk_count <= gone.chunks;
    RETURN NULL;
END $$;
"""
REVERSE = importlib.import_module("apps.retrieval.migrations.0003_statistics").FUNCTIONS
REVERSE = REVERSE[: REVERSE.index("CREATE TRIGGER")].replace(
    "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"
)
# What is ready was indexed; in which indexes, its vectors say. Row-level security binds the owner
# too, so the documents are counted by their vectors alone.
MARK = """
INSERT INTO retrieval_indexeddocument (tenant_id, index_id, document_id, chunk_count)
SELECT tenant_id, index_id, document_id, count(*) FROM search.chunkvector
GROUP BY tenant_id, index_id, document_id
"""
KEYS = (
    ("indexeddocument", "index_id", "retrieval_embeddingindex"),
    ("indexeddocument", "document_id", "documents_document"),
    ("annindex", "index_id", "retrieval_embeddingindex"),
    ("recallsample", "index_id", "retrieval_embeddingindex"),
    ("switchoverride", "build_id", "retrieval_indexbuild"),
)


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0006_indexes_and_profiles")]

    operations = [
        migrations.RunSQL(sql=FUNCTIONS, reverse_sql=REVERSE),
        *[tenant_foreign_key(f"retrieval_{table}", column, to) for table, column, to in KEYS],
        # A build outlives its indexes.
        *[
            tenant_foreign_key(
                "retrieval_indexbuild", column, "retrieval_embeddingindex", on_delete="SET NULL"
            )
            for column in ("source_id", "target_id")
        ],
        row_level_security("retrieval_switchoverride"),
        migrations.RunSQL(sql=MARK, reverse_sql=migrations.RunSQL.noop),
    ]
