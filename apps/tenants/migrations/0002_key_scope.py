"""What a key may do, and where. Keys that exist read only: they were made before there was an API."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.AddField("apikey", "scope", models.CharField(choices=[("read", "Read collections and documents"), ("manage", "Read, upload and delete documents")], default="read", max_length=10)),
        migrations.AddField("apikey", "collection_ids", django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), blank=True, default=list, size=None)),
        migrations.AddConstraint("apikey", models.CheckConstraint(condition=models.Q(("scope__in", ["read", "manage"])), name="api_key_scope")),
    ]  # fmt: skip
