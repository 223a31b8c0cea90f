"""Chunks of several generations side by side, and tags."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("documents", "0005_sources")]

    operations = [
        migrations.AddField("document", "generation", models.PositiveSmallIntegerField(default=0, db_default=0)),
        migrations.AddField(
            "document",
            "tags",
            django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=50), default=list, size=None
            ),
        ),
        migrations.AddIndex(
            "document",
            django.contrib.postgres.indexes.GinIndex(fields=["tags"], name="document_tags"),
        ),
        migrations.AddField("chunk", "generation", models.PositiveSmallIntegerField(default=0, db_default=0)),
        migrations.RemoveConstraint("chunk", "chunk_once"),
        migrations.AddConstraint(
            "chunk",
            models.UniqueConstraint(
                fields=["tenant", "document", "generation", "ordinal"], name="chunk_once"
            ),
        ),
    ]
