"""Addresses of the pages for operations, and of a tenant's pages that are made of several rooms."""

from __future__ import annotations

from django.urls import path

from apps.ops import cost_views, limit_views, views

app_name = "ops"

urlpatterns = [
    path("ops/ingestion/", views.ingestion, name="ingestion"),
    path("ops/quality/", views.quality, name="quality"),
    path("ops/costs/", cost_views.all_costs, name="costs"),
    path("ops/costs/export/", cost_views.all_costs_export, name="costs_export"),
    path("ops/limits/", limit_views.given_limits, name="given_limits"),
    path("ops/caches/", cost_views.all_caches, name="caches"),
    path("t/<slug:tenant_slug>/costs/", cost_views.tenant_costs, name="tenant_costs"),
    path(
        "t/<slug:tenant_slug>/costs/export/",
        cost_views.tenant_costs_export,
        name="tenant_costs_export",
    ),
    path("t/<slug:tenant_slug>/costs/caches/", cost_views.tenant_caches, name="tenant_caches"),
    path("t/<slug:tenant_slug>/limits/", limit_views.limits, name="limits"),
    path(
        "t/<slug:tenant_slug>/limits/<uuid:limit_id>/remove/",
        limit_views.remove_limit,
        name="remove_limit",
    ),
    path("t/<slug:tenant_slug>/limits/alerts/", limit_views.set_alerts, name="set_alerts"),
    path("t/<slug:tenant_slug>/limits/alerts/test/", limit_views.test_alerts, name="test_alerts"),
]
