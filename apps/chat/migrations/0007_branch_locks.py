"""Folders and shares are locked like the rest, and questions learn which answer they follow."""

from django.db import migrations

from apps.tenants.rls import row_level_security, tenant_foreign_key

# Until now a conversation was one line: a question follows the latest answer of the one before.
_FOLLOW = """
ALTER TABLE chat_message NO FORCE ROW LEVEL SECURITY;
WITH questions AS (
    SELECT id, tenant_id, conversation_id,
           lag(id) OVER (
               PARTITION BY tenant_id, conversation_id ORDER BY created_at
           ) AS previous
    FROM chat_message WHERE role = 'question'
)
UPDATE chat_message AS message
SET in_reply_to = (
    SELECT answer.id FROM chat_message AS answer
    WHERE answer.tenant_id = questions.tenant_id
      AND answer.conversation_id = questions.conversation_id
      AND answer.in_reply_to = questions.previous AND answer.role = 'answer'
    ORDER BY answer.created_at DESC LIMIT 1
)
FROM questions
WHERE message.id = questions.id AND questions.previous IS NOT NULL;
ALTER TABLE chat_message FORCE ROW LEVEL SECURITY;
"""


class Migration(migrations.Migration):
    dependencies = [("chat", "0006_branches")]

    operations = [
        row_level_security("chat_folder"),
        row_level_security("chat_share"),
        tenant_foreign_key("chat_conversation", "folder_id", "chat_folder", "SET NULL"),
        tenant_foreign_key("chat_share", "conversation_id", "chat_conversation"),
        migrations.RunSQL(_FOLLOW, migrations.RunSQL.noop),
    ]
