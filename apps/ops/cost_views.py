"""Pages of what calls to models cost and what caches saved: a tenant's own, and of all tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.gateway.ledger.days import zone_of
from apps.ops import costs
from apps.ops.caches import read_caches
from apps.ops.export import export_response, known_names
from apps.ops.names import OpsNames, TenantNames
from apps.ops.periods import CHOICES, Chosen, choose_period
from apps.telemetry.access import is_ops, ops_page
from apps.tenants.access import Right, TenantRequest, tenant_page

_SITE_TIME_ZONE = "UTC"  # of days over all tenants


@require_GET
@tenant_page(Right.MANAGE_PEOPLE)
def tenant_costs(request: TenantRequest) -> HttpResponse:
    """What a tenant's calls cost, by day and by whatever they can be told apart by."""
    tenant = request.access.tenant
    chosen = choose_period(request.GET, tenant.time_zone)
    names = TenantNames(tenant.id)
    context = {
        **_frame(request, chosen),
        "costs": costs.read_costs(tenant.id, chosen.period, names, dimensions=costs.OF_A_TENANT),
        "dearest": costs.dearest_of(request.access, chosen.period),
        "budget": costs.budget_of(tenant.id, tenant.time_zone),
    }
    return render(request, "ops/tenant_costs.html", context)


@require_GET
@tenant_page(Right.MANAGE_PEOPLE)
def tenant_costs_export(request: TenantRequest) -> HttpResponseBase:
    """The calls of the period as a file."""
    tenant = request.access.tenant
    chosen = choose_period(request.GET, tenant.time_zone)
    names = known_names(TenantNames(tenant.id), tenant.id, chosen)
    return export_response(tenant.id, chosen, names, title=tenant.slug, packed=_takes_gzip(request))


@require_GET
@tenant_page(Right.MANAGE_PEOPLE)
def tenant_caches(request: TenantRequest) -> HttpResponse:
    """How often a tenant's answers were there already."""
    tenant = request.access.tenant
    chosen = choose_period(request.GET, tenant.time_zone)
    context = {**_frame(request, chosen), "caches": read_caches(tenant.id, chosen.period)}
    return render(request, "ops/tenant_caches.html", context)


@require_GET
@ops_page
def all_costs(request: HttpRequest) -> HttpResponse:
    """The same of all tenants, for operations."""
    chosen = choose_period(request.GET, _SITE_TIME_ZONE)
    context = {
        **_frame(request, chosen),
        "costs": costs.read_costs(None, chosen.period, OpsNames(), dimensions=costs.OF_ALL),
        "dearest": costs.dearest_of_all(chosen.period),
    }
    return render(request, "ops/costs.html", context)


@require_GET
@ops_page
def all_costs_export(request: HttpRequest) -> HttpResponseBase:
    """The calls of all tenants as a file; people, keys and collections by identifier."""
    chosen = choose_period(request.GET, _SITE_TIME_ZONE)
    names = known_names(OpsNames(), None, chosen)
    return export_response(None, chosen, names, title="all", packed=_takes_gzip(request))


@require_GET
@ops_page
def all_caches(request: HttpRequest) -> HttpResponse:
    """How often answers were there already, over all tenants."""
    chosen = choose_period(request.GET, _SITE_TIME_ZONE)
    context = {**_frame(request, chosen), "caches": read_caches(None, chosen.period)}
    return render(request, "ops/caches.html", context)


def _takes_gzip(request: HttpRequest) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def _frame(request: HttpRequest, chosen: Chosen) -> Mapping[str, Any]:
    """What the head of each of these pages needs."""
    return {
        "chosen": chosen,
        "choices": CHOICES,
        "currency": settings.CURRENCY,
        "zone": zone_of(chosen.period.time_zone),
        # Whoever may set a price is shown where.
        "may_set_prices": is_ops(request) and request.user.is_staff,
    }
