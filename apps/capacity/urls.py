"""Addresses of the capacity pages; all are for operations."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.capacity.views import costs, planning, retrieval

app_name = "capacity"

urlpatterns: list[URLPattern] = [
    path("ops/capacity/plan/", planning.plan, name="plan"),
    path("ops/capacity/retrieval/", retrieval.plan_retrieval, name="plan_retrieval"),
    path("ops/capacity/costs/", costs.costs, name="costs"),
    path("ops/capacity/costs/memo/", costs.memo, name="memo"),
    path("ops/capacity/costs/memo.md", costs.memo_as_markdown, name="memo_markdown"),
    path("ops/capacity/costs/price/", costs.set_price, name="cost_price"),
]
