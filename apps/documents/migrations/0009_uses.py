"""How many documents and bytes a tenant, its members and its keys have: counted as they come and go.

A document counts once, in all its versions: with its first. The bytes of every version count, for
every version is kept until its document is deleted.
"""

import django.db.models.deletion
from django.db import migrations, models

# Of each subject that the rows belong to, the tenant's own ("") first: whoever holds that is alone.
_SUMS = """
    SELECT tenant_id, of.subject, of.subject_id,
        count(*) FILTER (WHERE version = 1) AS documents, sum(size_bytes) AS bytes
    FROM {rows}, LATERAL (VALUES
        ('tenant', ''), ('member', uploaded_by_id::text), ('key', key_id::text)
    ) AS of (subject, subject_id)
    WHERE of.subject_id IS NOT NULL
    GROUP BY tenant_id, of.subject, of.subject_id
    ORDER BY tenant_id, of.subject_id, of.subject
"""
_ADD = f"""
    INSERT INTO documents_documentuse AS known (tenant_id, subject, subject_id, documents, bytes)
    {_SUMS}
    ON CONFLICT (tenant_id, subject, subject_id) DO UPDATE SET
        documents = known.documents + excluded.documents, bytes = known.bytes + excluded.bytes
"""
# A count that is off must not keep anything from being deleted: it ends at 0, and fsck sees it.
_TAKE = f"""
    PERFORM 1 FROM documents_documentuse AS known JOIN ({_SUMS.format(rows="rows_gone")}) AS gone
        USING (tenant_id, subject, subject_id)
        ORDER BY known.tenant_id, known.subject_id, known.subject FOR NO KEY UPDATE OF known;
    UPDATE documents_documentuse AS known SET
        documents = greatest(0, known.documents - gone.documents),
        bytes = greatest(0, known.bytes - gone.bytes)
    FROM ({_SUMS.format(rows="rows_gone")}) AS gone
    WHERE known.tenant_id = gone.tenant_id AND known.subject = gone.subject
        AND known.subject_id = gone.subject_id
"""


def _trigger(name, event, rows, body):
    return migrations.RunSQL(
        sql=f"""
            CREATE FUNCTION documents_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                {body};
                RETURN NULL;
            END $$;
            CREATE TRIGGER {name} AFTER {event} ON documents_document
            REFERENCING {rows} FOR EACH STATEMENT EXECUTE FUNCTION documents_{name}();
        """,
        reverse_sql=f"""
            DROP TRIGGER {name} ON documents_document;
            DROP FUNCTION documents_{name}();
        """,
    )


class Migration(migrations.Migration):
    dependencies = [("documents", "0008_collection_versions"), ("tenants", "0003_limits")]

    operations = [
        migrations.AddField("document", "key_id", models.UUIDField(null=True)),
        migrations.CreateModel(
            name="DocumentUse",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("subject", models.CharField(max_length=10)),
                ("subject_id", models.CharField(blank=True, max_length=40)),
                ("documents", models.BigIntegerField(default=0)),
                ("bytes", models.BigIntegerField(default=0)),
                ("tenant", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="tenants.tenant")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "subject", "subject_id"), name="document_use_once"),
                    models.CheckConstraint(condition=models.Q(("documents__gte", 0), ("bytes__gte", 0)), name="document_use_not_negative"),
                ],
            },
        ),
        _trigger("add_use", "INSERT", "NEW TABLE AS rows_come", _ADD.format(rows="rows_come")),
        _trigger("take_use", "DELETE", "OLD TABLE AS rows_gone", _TAKE),
        # Row-level security holds the owner too (FORCE), so it is lifted to count.
        migrations.RunSQL(
            sql=f"""
                SET CONSTRAINTS ALL IMMEDIATE;
                ALTER TABLE documents_document NO FORCE ROW LEVEL SECURITY;
                {_ADD.format(rows="documents_document")};
                ALTER TABLE documents_document FORCE ROW LEVEL SECURITY;
            """,
            reverse_sql=migrations.RunSQL.noop,
        ),
    ]
