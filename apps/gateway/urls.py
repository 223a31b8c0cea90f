"""Addresses of the gateway's pages for operations and for tenants."""

from __future__ import annotations

from django.urls import path

from apps.gateway import views, views_cache

app_name = "gateway"

urlpatterns = [
    path("ops/upstreams/", views.upstreams, name="upstreams"),
    path("ops/upstreams/try/", views.try_upstream, name="try_upstream"),
    path("t/<slug:tenant_slug>/cache/", views_cache.cache, name="cache"),
    path("t/<slug:tenant_slug>/cache/forget/", views_cache.forget_cache, name="forget_cache"),
    path("t/<slug:tenant_slug>/cache/hits/<int:hit_id>/", views_cache.judge_hit, name="judge_hit"),
]
