"""Forgetting what has expired, by the clock."""

from __future__ import annotations

from apps.gateway.caching import semantic, store
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope


def sweep() -> None:
    """Tenant by tenant: answers are seen in their own tenant's scope only."""
    for tenant_id in Tenant.objects.order_by("id").values_list("id", flat=True).iterator():
        with tenant_scope(tenant_id):
            store.sweep(tenant_id)
            semantic.sweep(tenant_id)
