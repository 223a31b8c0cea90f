"""Row-level security and tenant foreign keys."""

from django.db import migrations

from apps.tenants.rls import row_level_security, tenant_foreign_key


class Migration(migrations.Migration):
    dependencies = [("documents", "0001_initial")]

    operations = [
        *[
            row_level_security(f"documents_{table}")
            for table in ("collection", "collectionreader", "document", "page", "chunk")
        ],
        tenant_foreign_key("documents_collectionreader", "collection_id", "documents_collection"),
        # Whoever leaves the tenant stops being a reader, and does not become one by returning.
        migrations.RunSQL(
            sql="""
                ALTER TABLE documents_collectionreader
                ADD CONSTRAINT documents_collectionreader_membership_fk
                FOREIGN KEY (tenant_id, user_id)
                REFERENCES tenants_membership (tenant_id, user_id) ON DELETE CASCADE;
            """,
            reverse_sql="ALTER TABLE documents_collectionreader "
            "DROP CONSTRAINT documents_collectionreader_membership_fk;",
        ),
        tenant_foreign_key("documents_document", "collection_id", "documents_collection"),
        tenant_foreign_key("documents_page", "document_id", "documents_document"),
        tenant_foreign_key("documents_chunk", "document_id", "documents_document"),
    ]
