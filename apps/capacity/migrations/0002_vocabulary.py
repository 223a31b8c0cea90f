"""How large the tables are that quantised checkpoints leave at 16 bits."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("capacity", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="modelshape",
            name="vocabulary",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="modelshape",
            name="tied_embeddings",
            field=models.BooleanField(default=False),
        ),
    ]
