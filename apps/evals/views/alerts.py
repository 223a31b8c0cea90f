"""Alerts: what got worse, until somebody has seen it."""

from __future__ import annotations

import uuid

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from apps.evals.selectors.runs import alerts_of, alerts_to_show, get_alert
from apps.evals.services.alerts import see_alert, unsee_alert
from apps.tenants.access import Right, TenantRequest, tenant_page

SHOWN = 100


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def alerts(request: TenantRequest) -> HttpResponse:
    """All alerts, seen ones included."""
    found = list(alerts_of(request.access.tenant.id)[:SHOWN])
    return render(request, "evals/alerts.html", {"alerts": found, "shown": SHOWN})


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def mark_alert(request: TenantRequest, alert_id: uuid.UUID) -> HttpResponse:
    """Take note of an alert; with `undo`, open it again."""
    tenant = request.access.tenant
    if get_alert(tenant.id, alert_id) is None:
        raise Http404
    if request.POST.get("undo"):
        unsee_alert(tenant=tenant, alert_id=alert_id)
    else:
        see_alert(tenant=tenant, user=request.access.user, alert_id=alert_id)
    if request.htmx:
        context = {"alerts": list(alerts_to_show(tenant.id))}
        return render(request, "evals/_alerts.html", context)
    back = "evals:alerts" if request.POST.get("back") == "alerts" else "evals:quality"
    return redirect(back, tenant.slug)
