"""Addresses of the capacity pages; all are for operations."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.capacity.views import planning

app_name = "capacity"

urlpatterns: list[URLPattern] = [
    path("ops/capacity/plan/", planning.plan, name="plan"),
]
