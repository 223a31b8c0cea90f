"""Which collections' documents a cached answer may quote."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("gateway", "0010_wrong_pairs")]

    operations = [
        migrations.AddField(
            "cachedresponse",
            "collection_ids",
            django.contrib.postgres.fields.ArrayField(
                base_field=models.UUIDField(), default=list, size=None
            ),
        ),
        # Nobody knows whose documents those of before quote; they are made again.
        migrations.RunSQL(
            "TRUNCATE gateway_cachedresponse", reverse_sql=migrations.RunSQL.noop, elidable=True
        ),
    ]
