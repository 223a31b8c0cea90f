"""Addresses of the pages for operations, and of a tenant's pages that are made of several rooms."""

from __future__ import annotations

from django.urls import path

from apps.ops import cost_views, views

app_name = "ops"

urlpatterns = [
    path("ops/ingestion/", views.ingestion, name="ingestion"),
    path("ops/quality/", views.quality, name="quality"),
    path("ops/costs/", cost_views.all_costs, name="costs"),
    path("ops/costs/export/", cost_views.all_costs_export, name="costs_export"),
    path("ops/caches/", cost_views.all_caches, name="caches"),
    path("t/<slug:tenant_slug>/costs/", cost_views.tenant_costs, name="tenant_costs"),
    path(
        "t/<slug:tenant_slug>/costs/export/",
        cost_views.tenant_costs_export,
        name="tenant_costs_export",
    ),
    path("t/<slug:tenant_slug>/costs/caches/", cost_views.tenant_caches, name="tenant_caches"),
]
