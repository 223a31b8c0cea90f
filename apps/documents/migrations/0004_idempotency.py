"""Requests to the API that are to be carried out once."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("documents", "0003_jobs_and_versions"), ("tenants", "0002_key_scope")]

    operations = [
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("key_hash", models.CharField(max_length=64)),
                ("fingerprint", models.CharField(max_length=64)),
                ("fence", models.PositiveIntegerField(default=0)),
                ("locked_until", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("answer", models.JSONField(default=dict)),
                ("api_key", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="tenants.apikey")),
                ("tenant", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="tenants.tenant")),
            ],
            options={
                "indexes": [models.Index(fields=["expires_at"], name="idempotency_expiry")],
                "constraints": [models.UniqueConstraint(fields=("tenant", "api_key", "key_hash"), name="idempotency_once")],
            },
        ),
    ]  # fmt: skip
