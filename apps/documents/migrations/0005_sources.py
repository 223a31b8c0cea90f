"""Watched folders and S3 prefixes."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.tenants.rls import row_level_security, tenant_foreign_key


def _tenant():
    return models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="tenants.tenant")


def _within_tenant(to, **options):
    return models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to=to, **options)


class Migration(migrations.Migration):
    dependencies = [
        ("documents", "0004_idempotency"),
        ("tenants", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Source",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("kind", models.CharField(choices=[("folder", "Folder"), ("s3", "S3 prefix")], max_length=6)),
                ("location", models.CharField(max_length=500)),
                ("every_minutes", models.PositiveIntegerField()),
                ("enabled", models.BooleanField(default=True)),
                ("removing", models.BooleanField(default=False)),
                ("removals_allowed", models.PositiveIntegerField(default=0)),
                ("last_started_at", models.DateTimeField(null=True)),
                ("last_finished_at", models.DateTimeField(null=True)),
                ("outcome", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("collection", _within_tenant("documents.collection", related_name="sources")),
                ("created_by", models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ("tenant", _tenant()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "id"), name="source_tenant_id"),
                    models.UniqueConstraint(fields=("tenant", "collection", "kind", "location"), name="source_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SourceFile",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("path", models.CharField(max_length=500)),
                ("size_bytes", models.BigIntegerField()),
                ("stamp", models.CharField(max_length=200)),
                ("sha256", models.CharField(blank=True, max_length=64)),
                ("code", models.CharField(blank=True, max_length=60)),
                ("message", models.CharField(blank=True, max_length=500)),
                ("document", _within_tenant("documents.document", related_name="+", null=True)),
                ("source", _within_tenant("documents.source", related_name="files")),
                ("tenant", _tenant()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "source", "path"), name="source_file_once"),
                    models.UniqueConstraint(fields=("tenant", "document"), name="source_file_document"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SourceRun",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("due_at", models.DateTimeField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("fence", models.PositiveIntegerField(default=0)),
                ("source", _within_tenant("documents.source", related_name="runs")),
                ("tenant", _tenant()),
            ],
            options={
                "indexes": [models.Index(fields=["due_at"], name="source_run_due")],
                "constraints": [models.UniqueConstraint(fields=("tenant", "source"), name="source_run_once")],
            },
        ),
        row_level_security("documents_source"),
        row_level_security("documents_sourcefile"),
        tenant_foreign_key("documents_source", "collection_id", "documents_collection"),
        tenant_foreign_key("documents_sourcefile", "source_id", "documents_source"),
        tenant_foreign_key("documents_sourcefile", "document_id", "documents_document", "SET NULL"),
        tenant_foreign_key("documents_sourcerun", "source_id", "documents_source"),
    ]
