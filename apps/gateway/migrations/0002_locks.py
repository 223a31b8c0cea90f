"""Answers are read in their own tenant's scope only; the ledger is only ever added to."""

from django.db import migrations

from apps.tenants.rls import row_level_security


class Migration(migrations.Migration):
    dependencies = [("gateway", "0001_initial")]

    operations = [
        row_level_security("gateway_cachedresponse"),
        row_level_security("gateway_semantichit"),
        row_level_security("gateway_alerttarget"),
        migrations.RunSQL(
            sql="""
                CREATE FUNCTION gateway_ledger_is_append_only() RETURNS trigger
                LANGUAGE plpgsql AS $$
                BEGIN
                    RAISE EXCEPTION 'the ledger is only ever added to';
                END $$;
                CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON gateway_ledgerentry
                FOR EACH STATEMENT EXECUTE FUNCTION gateway_ledger_is_append_only();
            """,
            reverse_sql="""
                DROP TRIGGER append_only ON gateway_ledgerentry;
                DROP FUNCTION gateway_ledger_is_append_only();
            """,
        ),
    ]
