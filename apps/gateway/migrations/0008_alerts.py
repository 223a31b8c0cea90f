"""When an alert is told next, and why the last attempts came to nothing."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("gateway", "0007_price_by_the_hour")]

    operations = [
        migrations.RemoveField("budgetalert", "error_code"),
        migrations.AddField("budgetalert", "due_at", models.DateTimeField(null=True)),
        migrations.AddField("budgetalert", "mail_error", models.CharField(blank=True, default="", max_length=60), preserve_default=False),
        migrations.AddField("budgetalert", "hook_error", models.CharField(blank=True, default="", max_length=60), preserve_default=False),
        migrations.AddIndex("budgetalert", models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="budget_alert_due")),
    ]
