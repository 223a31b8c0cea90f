"""The ledger counts hits: counting them here would write a row for each."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("gateway", "0011_cached_collections")]

    operations = [migrations.RemoveField("cachedresponse", "hits")]
