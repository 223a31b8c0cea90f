"""Migration operations that lock tenant-owned tables in the database itself."""

from __future__ import annotations

from django.db.migrations import RunSQL

# After a transaction ends the setting reads '' rather than NULL, hence NULLIF.
_PREDICATE = "tenant_id = NULLIF(current_setting('app.tenant', true), '')::uuid"


def row_level_security(table: str) -> RunSQL:
    """Show and accept rows of `table` only in their own tenant's scope, the owner included."""
    return RunSQL(
        sql=f"""
            ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
            ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
            CREATE POLICY tenant ON {table} USING ({_PREDICATE}) WITH CHECK ({_PREDICATE});
        """,
        reverse_sql=f"""
            DROP POLICY tenant ON {table};
            ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY;
            ALTER TABLE {table} DISABLE ROW LEVEL SECURITY;
        """,
    )


def tenant_foreign_key(table: str, column: str, parent: str, on_delete: str = "CASCADE") -> RunSQL:
    """A foreign key that includes the tenant, so that no row can point into another tenant.

    Foreign-key checks bypass row-level security, so the tenant must be part of the key. The
    parent needs a unique constraint on (tenant_id, id).
    """
    name = f"{table}_{column}_tenant_fk"
    action = f"SET NULL ({column})" if on_delete == "SET NULL" else on_delete
    return RunSQL(
        sql=f"""
            ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY (tenant_id, {column})
            REFERENCES {parent} (tenant_id, id) ON DELETE {action};
        """,
        reverse_sql=f"ALTER TABLE {table} DROP CONSTRAINT {name};",
    )
