"""Row-level security on every table that holds readable text, seen as the application role."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import ProgrammingError, connection, models, transaction

from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.cast import Cast
from tests.world import furnish

pytestmark = pytest.mark.django_db

# Tables with a tenant and text that are read across tenants, and why.
WITHOUT_A_LOCK = {
    "documents_documentuse": "figures; counted wherever documents come and go",
    "documents_job": "workers choose between the tenants; it holds no readable text",
    "tenants_membership": "says which tenants a person may open",
    "tenants_invitation": "found by the hash of a mailed token, before any tenant is known",
    "tenants_apikey": "found by the hash of a key, before any tenant is known",
    "retrieval_embeddingindex": "names of models, no text of a tenant",
    "retrieval_annindex": "names and figures of indexes, no text of a tenant",
    "retrieval_indexbuild": "workers choose between the tenants; names of models and figures",
    "retrieval_recallsample": "vectors and identifiers, no readable text",
    "retrieval_searchprofile": "figures, no text of a tenant",
    "tenants_limit": "figures; read wherever a limit is held",
    "evals_evalrun": "workers choose between the tenants; figures and identifiers",
    "evals_runquestion": "figures and identifiers; the question itself is under a lock",
    "evals_answerrun": "workers choose between the tenants; figures, names of models",
    "evals_tunerun": "workers choose between the tenants; figures",
    "evals_alert": "figures, read by operations across tenants",
    "documents_idempotencykey": "hashes, and answers without what their documents are called",
}
TEXT = (models.CharField, models.TextField, models.JSONField)


def tables_with_text() -> list[str]:
    return sorted(
        model._meta.db_table
        for model in apps.get_models()
        if any(field.related_model is Tenant for field in model._meta.fields)
        and any(isinstance(field, TEXT) for field in model._meta.fields)
    )


LOCKED = [table for table in tables_with_text() if table not in WITHOUT_A_LOCK]


def rows(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 - a table's name
        return int(cursor.fetchone()[0])


@pytest.fixture
def furnished(cast: Cast) -> Cast:
    furnish(cast.acme, manager=cast.alice, member=cast.bob)
    return cast


def test_the_tables_of_documents_and_chats_are_among_them() -> None:
    assert {"documents_chunk", "documents_page", "chat_message", "chat_citation"} <= set(LOCKED)
    assert set(WITHOUT_A_LOCK) <= set(tables_with_text())


@pytest.mark.parametrize("table", LOCKED)
def test_the_lock_is_forced_and_covers_reading_and_writing(table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relrowsecurity, c.relforcerowsecurity, p.polcmd, p.polqual IS NOT NULL, "
            "p.polwithcheck IS NOT NULL FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid "
            "WHERE c.relname = %s",
            [table],
        )
        assert cursor.fetchall() == [(True, True, "*", True, True)]


@pytest.mark.parametrize("table", LOCKED)
def test_rows_are_seen_in_their_own_tenants_scope_only(furnished: Cast, table: str) -> None:
    assert rows(table) == 0
    with tenant_scope(furnished.rival.id):
        assert rows(table) == 0
    with tenant_scope(furnished.acme.id):
        assert rows(table) > 0


@pytest.mark.parametrize("table", LOCKED)
def test_nothing_is_changed_or_deleted_without_a_scope(furnished: Cast, table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET tenant_id = %s", [furnished.rival.id])  # noqa: S608
        assert cursor.rowcount == 0
        cursor.execute(f"DELETE FROM {table}")  # noqa: S608
        assert cursor.rowcount == 0


@pytest.mark.parametrize("table", LOCKED)
def test_a_row_can_not_be_moved_to_another_tenant(furnished: Cast, table: str) -> None:
    statement = f"UPDATE {table} SET tenant_id = %s"  # noqa: S608
    with (
        tenant_scope(furnished.acme.id),
        pytest.raises(ProgrammingError, match="row-level security"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement, [furnished.rival.id])
