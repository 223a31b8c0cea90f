"""How a tenant's documents are cut into chunks."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("documents", "0006_generations_and_tags"),
        ("tenants", "0002_key_scope"),
    ]

    operations = [
        migrations.CreateModel(
            name="Chunking",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("generation", models.PositiveSmallIntegerField()),
                ("max_tokens", models.PositiveIntegerField()),
                ("overlap_tokens", models.PositiveIntegerField()),
                ("in_force", models.BooleanField(default=False)),
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
                    models.UniqueConstraint(fields=("tenant", "generation"), name="chunking_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("in_force", True)),
                        fields=("tenant",),
                        name="chunking_in_force",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("overlap_tokens__lt", models.F("max_tokens"))),
                        name="chunking_moves_on",
                    ),
                ],
            },
        ),
    ]
