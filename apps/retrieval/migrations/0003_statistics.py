"""Keep BM25's statistics true to the rows of retrieval_chunkterms, whatever adds or removes them.

A document is deleted in `documents`, which knows nothing of retrieval; its BM25 rows go by
cascade, inside the database. So the statistics are kept there too, by statement-level triggers
that count a whole statement's rows at once (a cascade's rows are gathered the same way).

Concurrency: the statistics rows of the collections are locked first, in order of their ids, and
that serialises writers of one collection; so the order in which term rows are updated afterwards
cannot deadlock. Rows of a collection that is itself being deleted may be gone already: the
decrement then finds nothing, and inserts nothing.

`terms` and `length` of a row never change: a chunk is analysed anew by deleting and inserting.
"""

from django.db import migrations

FUNCTIONS = """
CREATE FUNCTION retrieval_count_added_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO retrieval_collectionstatistics
        (tenant_id, collection_id, chunk_count, total_length, weighted_with_average)
    SELECT tenant_id, collection_id, count(*), sum(length), 0 FROM changed
    GROUP BY tenant_id, collection_id ORDER BY tenant_id, collection_id
    ON CONFLICT (tenant_id, collection_id) DO UPDATE SET
        chunk_count = retrieval_collectionstatistics.chunk_count + EXCLUDED.chunk_count,
        total_length = retrieval_collectionstatistics.total_length + EXCLUDED.total_length;

    INSERT INTO retrieval_termfrequency (tenant_id, collection_id, term, chunk_count)
    SELECT tenant_id, collection_id, lexeme::bigint, count(*)
    FROM changed, unnest(tsvector_to_array(terms)) AS lexeme
    GROUP BY tenant_id, collection_id, lexeme::bigint
    ORDER BY tenant_id, collection_id, lexeme::bigint
    ON CONFLICT (tenant_id, collection_id, term) DO UPDATE SET
        chunk_count = retrieval_termfrequency.chunk_count + EXCLUDED.chunk_count;
    RETURN NULL;
END $$;

CREATE FUNCTION retrieval_count_removed_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM retrieval_collectionstatistics
    WHERE (tenant_id, collection_id) IN (SELECT tenant_id, collection_id FROM changed)
    ORDER BY tenant_id, collection_id FOR UPDATE;

    UPDATE retrieval_collectionstatistics AS kept SET
        chunk_count = kept.chunk_count - gone.chunks,
        total_length = kept.total_length - gone.length
    FROM (
        SELECT tenant_id, collection_id, count(*) AS chunks, sum(length) AS length FROM changed
        GROUP BY tenant_id, collection_id
    ) AS gone
    WHERE kept.tenant_id = gone.tenant_id AND kept.collection_id = gone.collection_id;

    WITH gone AS (
        SELECT tenant_id, collection_id, lexeme::bigint AS term, count(*) AS chunks
        FROM changed, unnest(tsvector_to_array(terms)) AS lexeme
        GROUP BY tenant_id, collection_id, lexeme::bigint
    ), counted AS (
        UPDATE retrieval_termfrequency AS kept SET chunk_count = kept.chunk_count - gone.chunks
        FROM gone
        WHERE kept.tenant_id = gone.tenant_id AND kept.collection_id = gone.collection_id
            AND kept.term = gone.term AND kept.chunk_count > gone.chunks
    )
    DELETE FROM retrieval_termfrequency AS kept USING gone
    WHERE kept.tenant_id = gone.tenant_id AND kept.collection_id = gone.collection_id
        AND kept.term = gone.term AND kept.chunk_count <= gone.chunks;
    RETURN NULL;
END $$;

CREATE TRIGGER chunk_terms_added AFTER INSERT ON retrieval_chunkterms
REFERENCING NEW TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION retrieval_count_added_terms();

CREATE TRIGGER chunk_terms_removed AFTER DELETE ON retrieval_chunkterms
REFERENCING OLD TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION retrieval_count_removed_terms();
"""

REVERSE = """
DROP TRIGGER chunk_terms_removed ON retrieval_chunkterms;
DROP TRIGGER chunk_terms_added ON retrieval_chunkterms;
DROP FUNCTION retrieval_count_removed_terms();
DROP FUNCTION retrieval_count_added_terms();
"""


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0002_locks")]

    operations = [migrations.RunSQL(sql=FUNCTIONS, reverse_sql=REVERSE)]
