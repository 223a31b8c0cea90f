"""How the response cache gave an answer."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0004_feedback_locks")]

    operations = [
        migrations.AddField("message", "cache", models.CharField(blank=True, max_length=10)),
    ]
