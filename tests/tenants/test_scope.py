"""Row-level security as the application role."""

from __future__ import annotations

import pytest
from django.db import ProgrammingError, connection, transaction

from apps.documents.models import Collection
from apps.tenants.models import Tenant
from apps.tenants.scope import ScopeError, tenant_scope

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
