"""Tenant foreign keys, and the index BM25 finds its candidates by."""

from django.db import migrations

from apps.tenants.rls import tenant_foreign_key


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0001_initial"), ("documents", "0002_locks")]

    operations = [
        tenant_foreign_key("retrieval_chunkvector", "index_id", "retrieval_embeddingindex"),
        *[
            tenant_foreign_key(f"retrieval_{table}", f"{parent}_id", f"documents_{parent}")
            for table in ("chunkvector", "chunkterms")
            for parent in ("collection", "document", "chunk")
        ],
        *[
            tenant_foreign_key(f"retrieval_{table}", "collection_id", "documents_collection")
            for table in ("collectionstatistics", "termfrequency")
        ],
        migrations.RunSQL(
            # fastupdate off: a pending list would make the first search after an upload slow.
            sql="CREATE INDEX chunk_terms_gin ON retrieval_chunkterms USING gin (terms) "
            "WITH (fastupdate = off)",
            reverse_sql="DROP INDEX chunk_terms_gin",
        ),
    ]
