from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0007_generations")]

    operations = [
        migrations.AddField(
            "recallsample", "found_rows", models.PositiveSmallIntegerField(null=True)
        ),
    ]
