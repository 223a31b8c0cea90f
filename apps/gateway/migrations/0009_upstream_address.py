"""An upstream's host may have no dots, as in a network of containers."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("gateway", "0008_alerts")]

    operations = [
        migrations.AlterField(
            model_name="gatewayupstream",
            name="url",
            field=models.CharField(max_length=300),
        ),
    ]
