"""A number per collection that rises with whatever changes what may be found in it."""

import django.db.models.deletion
from django.db import migrations, models

# What is found of a document hangs on these; the languages of all documents, ready or not, have a
# say in how a question's words are stemmed. Progress, and what a document waits for, do not count.
_SEEN = (
    "SELECT tenant_id, collection_id, id, state = 'ready', generation, path, name, kind, language, "
    "tags, created_at FROM {rows} WHERE state = 'ready' OR language <> ''"
)
# EXCEPT hashes or sorts. A join by id would be planned once for one row, and crawl with the plan
# kept when all documents of a tenant change in one statement.
_CHANGED = (
    f"({_SEEN.format(rows='rows_before')} EXCEPT {_SEEN.format(rows='rows_after')}) UNION ALL "
    f"({_SEEN.format(rows='rows_after')} EXCEPT {_SEEN.format(rows='rows_before')})"
)
_TRANSITIONS = {
    "insert": ("REFERENCING NEW TABLE AS rows_after", _SEEN.format(rows="rows_after")),
    "update": ("REFERENCING OLD TABLE AS rows_before NEW TABLE AS rows_after", _CHANGED),
    "delete": ("REFERENCING OLD TABLE AS rows_before", _SEEN.format(rows="rows_before")),
}
# Nobody waits for anybody here: what another transaction has just put in is left where it is, and
# added up by whoever reads. So there is no order of locks to keep to, and no deadlock.
_RAISE = """
    CREATE FUNCTION documents_raise_version(of_tenant uuid, of_collection uuid) RETURNS void
    LANGUAGE sql AS $$
        WITH free AS MATERIALIZED (
            SELECT id FROM documents_collectionversion
            WHERE tenant_id = of_tenant AND collection_id = of_collection
            FOR UPDATE SKIP LOCKED
        ), taken AS (
            DELETE FROM documents_collectionversion WHERE id IN (SELECT id FROM free)
            RETURNING raised
        )
        INSERT INTO documents_collectionversion (tenant_id, collection_id, raised)
        SELECT of_tenant, of_collection, coalesce(sum(raised), 0) + 1 FROM taken
    $$;
"""
_FORGET = """
    CREATE FUNCTION documents_forget_versions() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM documents_collectionversion AS kept USING rows_before AS gone
        WHERE kept.tenant_id = gone.tenant_id AND kept.collection_id = gone.id;
        RETURN NULL;
    END $$;
    CREATE TRIGGER forget_versions AFTER DELETE ON documents_collection
    REFERENCING OLD TABLE AS rows_before
    FOR EACH STATEMENT EXECUTE FUNCTION documents_forget_versions();
"""


# A collection's documents go after its numbers have: that must not begin new ones.
_THERE = """
    WHERE EXISTS (
        SELECT 1 FROM documents_collection AS kept
        WHERE kept.tenant_id = touched.tenant_id AND kept.id = touched.collection_id
    )
"""


def _trigger(event: str) -> migrations.RunSQL:
    tables, changed = _TRANSITIONS[event]
    name = f"documents_version_on_{event}"
    return migrations.RunSQL(
        sql=f"""
            CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM documents_raise_version(touched.tenant_id, touched.collection_id)
                FROM (SELECT DISTINCT tenant_id, collection_id FROM ({changed}) AS seen) AS touched
                {_THERE if event == "delete" else ""};
                RETURN NULL;
            END $$;
            CREATE TRIGGER raise_version_on_{event} AFTER {event.upper()} ON documents_document
            {tables} FOR EACH STATEMENT EXECUTE FUNCTION {name}();
        """,
        reverse_sql=f"""
            DROP TRIGGER raise_version_on_{event} ON documents_document;
            DROP FUNCTION {name}();
        """,
    )


class Migration(migrations.Migration):
    dependencies = [("documents", "0007_chunkings"), ("tenants", "0002_key_scope")]

    operations = [
        migrations.CreateModel(
            name="CollectionVersion",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("collection_id", models.UUIDField()),
                ("raised", models.BigIntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["tenant", "collection_id"],
                        include=("raised",),
                        name="collection_version_sum",
                    )
                ],
            },
        ),
        migrations.RunSQL(
            sql=_RAISE, reverse_sql="DROP FUNCTION documents_raise_version(uuid, uuid);"
        ),
        *[_trigger(event) for event in _TRANSITIONS],
        migrations.RunSQL(
            sql=_FORGET,
            reverse_sql="""
                DROP TRIGGER forget_versions ON documents_collection;
                DROP FUNCTION documents_forget_versions();
            """,
        ),
    ]
