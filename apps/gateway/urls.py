"""Addresses of the gateway's pages for operations."""

from __future__ import annotations

from django.urls import path

from apps.gateway import views

app_name = "gateway"

urlpatterns = [
    path("ops/upstreams/", views.upstreams, name="upstreams"),
    path("ops/upstreams/try/", views.try_upstream, name="try_upstream"),
]
