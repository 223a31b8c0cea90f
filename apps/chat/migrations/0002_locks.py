"""Row-level security and tenant foreign keys."""

from django.db import migrations

from apps.tenants.rls import row_level_security, tenant_foreign_key


class Migration(migrations.Migration):
    dependencies = [("chat", "0001_initial"), ("documents", "0002_locks")]

    operations = [
        *[
            row_level_security(f"chat_{table}")
            for table in ("conversation", "message", "citation")
        ],
        tenant_foreign_key("chat_message", "conversation_id", "chat_conversation"),
        tenant_foreign_key("chat_citation", "message_id", "chat_message"),
        tenant_foreign_key("chat_citation", "document_id", "documents_document", "SET NULL"),
    ]
