"""Make the database ready for migrations: the extension, and what the application role may do."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import connections
from psycopg import sql


class Command(BaseCommand):
    help = "As the owner: create pgvector and grant the application role its rights. Idempotent."

    def handle(self, *args: Any, **options: Any) -> None:
        app_role = connections["default"].settings_dict["USER"]
        owner_role = connections["owner"].settings_dict["USER"]
        if app_role == owner_role:
            self.stderr.write(
                f"Both roles are {app_role!r}: row-level security would not bind the site's "
                "superuser. Set DATABASE_URL to a role that owns nothing."
            )
        role = sql.Identifier(app_role)
        statements = [
            sql.SQL("CREATE EXTENSION IF NOT EXISTS vector"),
            sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(role),
            sql.SQL(
                "ALTER DEFAULT PRIVILEGES IN SCHEMA public "
                "GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {}"
            ).format(role),
            sql.SQL(
                "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {}"
            ).format(role),
            # Tables made before the role existed.
            sql.SQL(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}"
            ).format(role),
            sql.SQL("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {}").format(role),
        ]
        with connections["owner"].cursor() as cursor:
            for statement in statements:
                cursor.execute(statement.as_string(cursor.connection))
