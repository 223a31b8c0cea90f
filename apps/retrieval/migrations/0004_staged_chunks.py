"""Where the rows of a large document wait until it is ready."""

import django.contrib.postgres.search
import django.db.models.deletion
import pgvector.django.halfvec
import pgvector.django.sparsevec
from django.db import migrations, models

from apps.tenants.rls import tenant_foreign_key


def _key(to):
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.DO_NOTHING,
        to=to,
    )


class Migration(migrations.Migration):
    dependencies = [
        ("retrieval", "0003_statistics"),
        ("documents", "0003_jobs_and_versions"),
        ("tenants", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="StagedChunk",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("embedding", pgvector.django.halfvec.HalfVectorField()),
                ("length", models.PositiveIntegerField()),
                ("terms", django.contrib.postgres.search.SearchVectorField()),
                ("weights", pgvector.django.sparsevec.SparseVectorField()),
                ("average", models.FloatField()),
                ("chunk", _key("documents.chunk")),
                ("document", _key("documents.document")),
                ("index", _key("retrieval.embeddingindex")),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "chunk", "index"), name="staged_chunk_once"
                    )
                ],
                "indexes": [
                    models.Index(
                        fields=["tenant", "document", "index"], name="staged_chunk_document"
                    )
                ],
            },
        ),
        migrations.RunSQL(
            sql="ALTER TABLE retrieval_stagedchunk SET UNLOGGED;",
            reverse_sql="ALTER TABLE retrieval_stagedchunk SET LOGGED;",
        ),
        tenant_foreign_key("retrieval_stagedchunk", "document_id", "documents_document"),
        tenant_foreign_key("retrieval_stagedchunk", "chunk_id", "documents_chunk"),
        tenant_foreign_key("retrieval_stagedchunk", "index_id", "retrieval_embeddingindex"),
    ]
