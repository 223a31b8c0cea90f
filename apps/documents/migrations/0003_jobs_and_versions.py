"""Jobs in a table of their own, versions of a file, and batches.

Documents that are on their way lose their lease and are taken up again. Of several documents of
one name, the later ones get a number and the beginning of their id: their path has to differ,
also from a file that is called so. Row-level security holds the owner too (FORCE), so it is lifted
for the update; no table can be altered while a deferred check of its rows is due.
"""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.tenants.rls import row_level_security, tenant_foreign_key

FILL = """
SET CONSTRAINTS ALL IMMEDIATE;
ALTER TABLE documents_document NO FORCE ROW LEVEL SECURITY;
UPDATE documents_document AS kept SET path = CASE
    WHEN counted.n = 1 THEN kept.name
    ELSE kept.name || ' (' || counted.n || ', ' || left(kept.id::text, 8) || ')' END
FROM (
    SELECT id, row_number() OVER (
        PARTITION BY tenant_id, collection_id, name ORDER BY created_at, id) AS n
    FROM documents_document
) AS counted
WHERE counted.id = kept.id;
UPDATE documents_document SET state = 'parsing' WHERE state = 'chunking';
INSERT INTO documents_job (tenant_id, document_id, stage, turn, attempt, fence, since)
SELECT tenant_id, id, CASE WHEN state = 'indexing' THEN 'index' ELSE 'ingest' END,
    row_number() OVER (PARTITION BY tenant_id ORDER BY created_at), 0, 0, updated_at
FROM documents_document WHERE state IN ('received', 'parsing', 'indexing');
ALTER TABLE documents_document FORCE ROW LEVEL SECURITY;
"""

STATES = ["received", "parsing", "indexing", "ready", "failed", "superseded"]


class Migration(migrations.Migration):
    dependencies = [
        ("documents", "0002_locks"),
        ("tenants", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Batch",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("source", models.CharField(choices=[("upload", "Upload"), ("command", "Command"), ("api", "API"), ("sync", "Watched folder")], max_length=10)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expected", models.PositiveIntegerField(default=0)),
                ("unchanged", models.PositiveIntegerField(default=0)),
                ("collection", models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name="batches", to="documents.collection")),
                ("created_by", models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ("tenant", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="tenants.tenant")),
            ],
            options={
                "indexes": [models.Index(fields=["tenant", "collection", "-created_at"], name="batch_page")],
                "constraints": [models.UniqueConstraint(fields=("tenant", "id"), name="batch_tenant_id")],
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("stage", models.CharField(choices=[("ingest", "Parse and chunk"), ("index", "Index")], max_length=6)),
                ("turn", models.BigIntegerField()),
                ("attempt", models.PositiveSmallIntegerField(default=0)),
                ("fence", models.PositiveIntegerField(default=0)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("not_before", models.DateTimeField(null=True)),
                ("since", models.DateTimeField()),
                ("document", models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name="jobs", to="documents.document")),
                ("tenant", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="tenants.tenant")),
            ],
            options={
                "indexes": [
                    models.Index(fields=["stage", "turn", "id"], name="job_next"),
                    models.Index(fields=["lease_expires_at"], name="job_leased", condition=models.Q(("lease_expires_at__isnull", False))),
                    models.Index(fields=["tenant", "stage", "turn"], name="job_of_tenant"),
                ],
                "constraints": [models.UniqueConstraint(fields=("tenant", "document"), name="job_once"), models.CheckConstraint(condition=models.Q(("stage__in", ["ingest", "index"])), name="job_stage")],
            },
        ),
        migrations.AddField("document", "path", models.CharField(default="", max_length=500), preserve_default=False),
        migrations.AddField("document", "version", models.PositiveIntegerField(default=1)),
        migrations.AddField("document", "batch", models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name="documents", to="documents.batch")),
        migrations.AddField("document", "unlocked_key", models.CharField(blank=True, max_length=300)),
        migrations.AddField("document", "encoding", models.CharField(blank=True, max_length=40)),
        migrations.AddField("document", "ocr", models.BooleanField(default=False)),
        migrations.AlterField("document", "state", models.CharField(choices=[("received", "Received"), ("parsing", "Parsing"), ("indexing", "Indexing"), ("ready", "Ready"), ("failed", "Failed"), ("superseded", "Superseded")], default="received", max_length=10)),
        # Before there are rows: adding it would look for their documents, which no policy shows.
        tenant_foreign_key("documents_job", "document_id", "documents_document"),
        migrations.RunSQL(sql=FILL, reverse_sql=migrations.RunSQL.noop),
        migrations.RemoveConstraint("document", "document_state"),
        migrations.RemoveConstraint("document", "document_bytes_once"),
        migrations.RemoveIndex("document", "document_unfinished"),
        migrations.RemoveField("document", "attempt"),
        migrations.RemoveField("document", "lease_expires_at"),
        migrations.AddConstraint("document", models.CheckConstraint(condition=models.Q(("state__in", STATES)), name="document_state")),
        migrations.AddConstraint("document", models.UniqueConstraint(fields=("tenant", "collection", "path", "version"), name="document_version_once")),
        migrations.AddConstraint("document", models.UniqueConstraint(condition=models.Q(("state", "superseded"), _negated=True), fields=("tenant", "collection", "sha256"), name="document_bytes_once")),
        migrations.AddIndex("document", models.Index(fields=["tenant", "batch", "state"], name="document_batch")),
        row_level_security("documents_batch"),
        tenant_foreign_key("documents_batch", "collection_id", "documents_collection"),
        tenant_foreign_key("documents_document", "batch_id", "documents_batch", "SET NULL"),
    ]  # fmt: skip
