"""Tenant foreign keys, and row-level security on what people wrote."""

from django.db import migrations

from apps.tenants.rls import row_level_security, tenant_foreign_key

KEYS = (
    ("labelledset", "collection_id", "documents_collection"),
    ("labelledquestion", "labelled_set_id", "evals_labelledset"),
    ("label", "question_id", "evals_labelledquestion"),
    ("label", "document_id", "documents_document"),
    ("proposal", "answer_id", "chat_message"),
    ("evalrun", "labelled_set_id", "evals_labelledset"),
    ("runquestion", "run_id", "evals_evalrun"),
    ("runquestion", "question_id", "evals_labelledquestion"),
    ("alert", "run_id", "evals_evalrun"),
)


class Migration(migrations.Migration):
    dependencies = [("evals", "0001_initial"), ("documents", "0006_generations_and_tags"), ("chat", "0004_feedback_locks")]

    operations = [
        *[
            row_level_security(f"evals_{table}")
            for table in ("labelledset", "labelledquestion", "proposal")
        ],
        *[tenant_foreign_key(f"evals_{table}", column, to) for table, column, to in KEYS],
    ]
