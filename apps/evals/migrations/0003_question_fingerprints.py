from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evals", "0002_locks")]

    operations = [
        migrations.AddField(
            model_name="runquestion",
            name="fingerprint",
            field=models.CharField(blank=True, default="", max_length=16),
            preserve_default=False,
        ),
    ]
