"""Vectors in partitions of a schema where the application role may build and drop indexes.

An HNSW index is built CONCURRENTLY, which no function can do on another's behalf, and only a
table's owner may. So the vectors, which hold no readable text and have no policy, become the
application role's own; everything that row-level security guards stays the owner's.

Slot 0 is shared by all tenants. An index that is built beside another gets a partition of its own
where it is large: dropping it is then DROP TABLE, and leaves nothing to vacuum. There is no
default partition, so a new one need not look through the others' rows.
"""

from django.db import connections, migrations, models
from psycopg import sql

REFERENCED = (
    "tenants_tenant",
    "documents_collection",
    "documents_document",
    "documents_chunk",
    "retrieval_embeddingindex",
)
TABLE = """
CREATE SCHEMA search;
GRANT USAGE, CREATE ON SCHEMA search TO {app};
ALTER TABLE retrieval_chunkvector SET SCHEMA search;
ALTER TABLE search.retrieval_chunkvector RENAME TO chunkvector_0;
ALTER TABLE search.chunkvector_0 ADD COLUMN slot smallint NOT NULL DEFAULT 0;
ALTER TABLE search.chunkvector_0 ALTER COLUMN id DROP IDENTITY IF EXISTS;
ALTER TABLE search.chunkvector_0 DROP CONSTRAINT retrieval_chunkvector_pkey;
ALTER TABLE search.chunkvector_0 DROP CONSTRAINT chunk_vector_once;
DROP INDEX search.chunk_vector_exact, search.chunk_vector_document, search.chunk_vector_chunk;
CREATE SEQUENCE search.chunkvector_id;
SELECT setval('search.chunkvector_id', (SELECT COALESCE(max(id), 0) + 1 FROM search.chunkvector_0));
CREATE TABLE search.chunkvector (
    id bigint NOT NULL DEFAULT nextval('search.chunkvector_id'),
    tenant_id uuid NOT NULL,
    index_id uuid NOT NULL,
    collection_id uuid NOT NULL,
    document_id uuid NOT NULL,
    chunk_id uuid NOT NULL,
    embedding halfvec NOT NULL,
    slot smallint NOT NULL DEFAULT 0,
    CONSTRAINT chunk_vector_once UNIQUE (tenant_id, index_id, chunk_id, slot)
) PARTITION BY LIST (slot);
ALTER TABLE search.chunkvector_0 ALTER COLUMN id SET DEFAULT nextval('search.chunkvector_id');
ALTER TABLE search.chunkvector ATTACH PARTITION search.chunkvector_0 FOR VALUES IN (0);
CREATE INDEX chunk_vector_exact ON search.chunkvector (tenant_id, index_id, collection_id);
CREATE INDEX chunk_vector_document ON search.chunkvector (tenant_id, document_id);
CREATE INDEX chunk_vector_chunk ON search.chunkvector (tenant_id, chunk_id);
"""
# The same keys as the partition has: attached to the parent, they are not checked anew.
KEYS = """
ALTER TABLE search.chunkvector ADD CONSTRAINT chunkvector_tenant_fk FOREIGN KEY (tenant_id)
    REFERENCES tenants_tenant (id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE search.chunkvector ADD CONSTRAINT chunkvector_index_fk
    FOREIGN KEY (tenant_id, index_id) REFERENCES retrieval_embeddingindex (tenant_id, id)
    ON DELETE CASCADE;
ALTER TABLE search.chunkvector ADD CONSTRAINT chunkvector_collection_fk
    FOREIGN KEY (tenant_id, collection_id) REFERENCES documents_collection (tenant_id, id)
    ON DELETE CASCADE;
ALTER TABLE search.chunkvector ADD CONSTRAINT chunkvector_document_fk
    FOREIGN KEY (tenant_id, document_id) REFERENCES documents_document (tenant_id, id)
    ON DELETE CASCADE;
ALTER TABLE search.chunkvector ADD CONSTRAINT chunkvector_chunk_fk
    FOREIGN KEY (tenant_id, chunk_id) REFERENCES documents_chunk (tenant_id, id)
    ON DELETE CASCADE;
"""


def _app_role(schema_editor):
    """Its name; the owner must be a member of it, to hand tables over."""
    app = connections["default"].settings_dict["USER"]
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT current_user, pg_has_role(current_user, %s, 'MEMBER')", [app])
        owner, is_member = cursor.fetchone()
    if not is_member:
        raise RuntimeError(
            f'The search tables are to be {app}\'s own. As a superuser: GRANT "{app}" TO "{owner}"; '
            "then migrate again."
        )
    return app


def build(apps, schema_editor):
    app = sql.Identifier(_app_role(schema_editor))
    connection = schema_editor.connection
    with connection.cursor() as cursor:

        def run(text):
            cursor.execute(sql.SQL(text).format(app=app).as_string(connection.connection))

        run(TABLE)
        run(KEYS)
        for table in REFERENCED:
            run(f"GRANT REFERENCES ON {table} TO {{app}}")
        for table in ("chunkvector", "chunkvector_0"):
            run(f"ALTER TABLE search.{table} OWNER TO {{app}}")
        run("ALTER SEQUENCE search.chunkvector_id OWNER TO {app}")


class Migration(migrations.Migration):
    dependencies = [
        ("retrieval", "0004_staged_chunks"),
        ("documents", "0006_generations_and_tags"),
    ]

    operations = [
        migrations.RunPython(build),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterModelTable("chunkvector", '"search"."chunkvector"'),
                migrations.AddField(
                    "chunkvector", "slot", models.PositiveSmallIntegerField(default=0)
                ),
                migrations.RemoveConstraint("chunkvector", "chunk_vector_once"),
                migrations.AddConstraint(
                    "chunkvector",
                    models.UniqueConstraint(
                        fields=["tenant", "index", "chunk", "slot"], name="chunk_vector_once"
                    ),
                ),
            ]
        ),
    ]
