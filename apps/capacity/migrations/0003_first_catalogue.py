"""The models, GPUs and prices that a new site begins with."""

from django.db import migrations

from apps.capacity.catalogue.seeding import seed_catalogue


def seed(apps, schema_editor):
    seed_catalogue(
        lambda name: apps.get_model("capacity", name), using=schema_editor.connection.alias
    )


class Migration(migrations.Migration):
    dependencies = [
        ("capacity", "0002_vocabulary"),
    ]

    operations = [
        # Going back leaves the rows: somebody may have changed them.
        migrations.RunPython(seed, migrations.RunPython.noop),
    ]
