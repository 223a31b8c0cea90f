"""Feedback belongs to its tenant's answers, and nobody else sees it."""

from django.db import migrations

from apps.tenants.rls import row_level_security, tenant_foreign_key


class Migration(migrations.Migration):
    dependencies = [("chat", "0003_feedback")]

    operations = [
        row_level_security("chat_feedback"),
        tenant_foreign_key("chat_feedback", "message_id", "chat_message"),
    ]
