"""What every organisation was given by operations, and how much of it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator

from apps.ops.limits import OwnLine, own_lines
from apps.tenants.models import Tenant

_PER_PAGE = 25
_SOUGHT_MAX_CHARS = 100


@dataclass(frozen=True)
class Row:
    tenant: Tenant
    lines: list[OwnLine]  # of what was given; empty where nothing was


def page_of_tenants(query: Mapping[str, str]) -> dict[str, Any]:
    """A page of organisations by name, those whose name or slug holds `q`."""
    sought = query.get("q", "").replace("\x00", "")[:_SOUGHT_MAX_CHARS].strip()
    tenants = Tenant.objects.order_by("name", "id")
    if sought:
        tenants = tenants.filter(name__icontains=sought) | tenants.filter(slug__icontains=sought)
    page = Paginator(tenants, _PER_PAGE).get_page(query.get("page"))
    rows = [
        Row(tenant, [line for line in own_lines(tenant) if line.given_limit]) for tenant in page
    ]
    return {"rows": rows, "page": page, "sought": sought}
