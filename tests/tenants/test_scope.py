"""Row-level security as the application role."""

from __future__ import annotations

import asyncio
import threading

import pytest
from asgiref.sync import async_to_sync
from django.db import ProgrammingError, connection, transaction
from pytest_django import DjangoAssertNumQueries

from apps.documents.models import Collection
from apps.tenants.aio import in_scope, in_thread
from apps.tenants.models import Tenant
from apps.tenants.scope import ScopeError, current_tenant_id, tenant_scope

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenants() -> tuple[Tenant, Tenant]:
    acme = Tenant.objects.create(slug="acme", name="Acme")
    other = Tenant.objects.create(slug="other", name="Other")
    with tenant_scope(acme.id):
        Collection.objects.create(tenant=acme, name="Handbook")
    return acme, other


def count_by_raw_sql() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM documents_collection")
        return int(cursor.fetchone()[0])


def test_raw_sql_without_a_scope_sees_no_rows(tenants: tuple[Tenant, Tenant]) -> None:
    assert count_by_raw_sql() == 0


def test_raw_sql_in_another_tenants_scope_sees_no_rows(tenants: tuple[Tenant, Tenant]) -> None:
    with tenant_scope(tenants[1].id):
        assert count_by_raw_sql() == 0


def test_a_scope_shows_its_own_tenants_rows(tenants: tuple[Tenant, Tenant]) -> None:
    with tenant_scope(tenants[0].id):
        assert count_by_raw_sql() == 1


def test_a_row_of_another_tenant_cannot_be_written(tenants: tuple[Tenant, Tenant]) -> None:
    acme, other = tenants
    with tenant_scope(acme.id), pytest.raises(ProgrammingError), transaction.atomic():
        Collection.objects.create(tenant=other, name="Planted")


def test_scopes_of_two_tenants_do_not_nest(tenants: tuple[Tenant, Tenant]) -> None:
    acme, other = tenants
    with tenant_scope(acme.id), pytest.raises(ScopeError), tenant_scope(other.id):
        pass


def test_the_application_role_can_not_bypass_policies() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
        assert cursor.fetchone()[0] is False


def test_a_failing_statement_is_reported_as_it_is_and_ends_the_scope(
    tenants: tuple[Tenant, Tenant],
) -> None:
    with (
        pytest.raises(ProgrammingError, match="no_such_table"),
        tenant_scope(tenants[0].id),
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT * FROM no_such_table")
    assert current_tenant_id() is None
    assert count_by_raw_sql() == 0


def test_a_scope_in_a_wider_transaction_ends_with_its_block(tenants: tuple[Tenant, Tenant]) -> None:
    with tenant_scope(tenants[0].id), tenant_scope(tenants[0].id):
        pass
    assert count_by_raw_sql() == 0


@pytest.mark.django_db(transaction=True)
def test_a_thread_opens_a_scope_of_its_own(tenants: tuple[Tenant, Tenant]) -> None:
    acme, other = tenants
    with tenant_scope(other.id):
        counted = async_to_sync(in_scope)(acme.id, count_by_raw_sql)
        assert current_tenant_id() == other.id
    assert counted == 1


@pytest.mark.django_db(transaction=True)
async def test_asynchronous_code_reaches_the_database_on_several_threads() -> None:
    barrier = threading.Barrier(2, timeout=10)  # passed only by two at the same time

    def query() -> int:
        barrier.wait()
        return count_by_raw_sql()

    assert await asyncio.gather(in_thread(query), in_thread(query)) == [0, 0]


@pytest.mark.django_db(transaction=True)
def test_a_scope_costs_one_statement_of_its_own(
    tenants: tuple[Tenant, Tenant], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(3), tenant_scope(tenants[0].id):  # BEGIN, set_config, COMMIT
        pass
