"""Addresses of the capacity pages; all are for operations."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.capacity.views import planning, retrieval

app_name = "capacity"

urlpatterns: list[URLPattern] = [
    path("ops/capacity/plan/", planning.plan, name="plan"),
    path("ops/capacity/retrieval/", retrieval.plan_retrieval, name="plan_retrieval"),
]
