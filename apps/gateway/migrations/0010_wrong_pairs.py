"""Pairs of questions that were called wrong are found without reading the others."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("gateway", "0009_upstream_address")]

    operations = [
        migrations.AddIndex(
            "semantichit",
            models.Index(
                condition=models.Q(("verdict", "wrong")), fields=["tenant"], name="semantic_hit_wrong"
            ),
        ),
    ]
