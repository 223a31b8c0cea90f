"""Addresses of the capacity pages; all are for operations."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.capacity.views import (
    acting,
    comparing,
    costs,
    exporting,
    gates,
    home,
    planning,
    points,
    retrieval,
    starting,
    tests,
)

app_name = "capacity"

urlpatterns: list[URLPattern] = [
    path("ops/capacity/plan/", planning.plan, name="plan"),
    path("ops/capacity/retrieval/", retrieval.plan_retrieval, name="plan_retrieval"),
    path("ops/capacity/costs/", costs.costs, name="costs"),
    path("ops/capacity/costs/memo/", costs.memo, name="memo"),
    path("ops/capacity/costs/memo.md", costs.memo_as_markdown, name="memo_markdown"),
    path("ops/capacity/costs/price/", costs.set_price, name="cost_price"),
    path("ops/capacity/", home.home, name="home"),
    path("ops/capacity/tests/", tests.tests, name="tests"),
    path("ops/capacity/tests/new/", starting.test_new, name="test_new"),
    path("ops/capacity/tests/compare/", comparing.compare, name="compare"),
    path("ops/capacity/tests/bounds/", starting.test_bounds, name="test_bounds"),
    path("ops/capacity/tests/<uuid:loadtest_id>/", tests.test, name="test"),
    path("ops/capacity/tests/<uuid:loadtest_id>/state/", tests.test_state, name="test_state"),
    path("ops/capacity/tests/<uuid:loadtest_id>/stop/", acting.stop_test, name="stop_test"),
    path("ops/capacity/tests/<uuid:loadtest_id>/again/", acting.run_again, name="run_again"),
    path("ops/capacity/tests/<uuid:loadtest_id>/delete/", acting.delete_test, name="delete_test"),
    path("ops/capacity/tests/<uuid:loadtest_id>/json/", exporting.export_json, name="export_json"),
    path("ops/capacity/tests/<uuid:loadtest_id>/csv/", exporting.export_csv, name="export_csv"),
    path(
        "ops/capacity/tests/<uuid:loadtest_id>/points/<int:point_number>/",
        points.point,
        name="point",
    ),
    path("ops/capacity/gates/", gates.gates, name="gates"),
    path("ops/capacity/gates/new/", gates.gate_new, name="gate_new"),
    path("ops/capacity/gates/override/", gates.override_gate, name="gate_override"),
    path("ops/capacity/gates/<uuid:gate_id>/", gates.gate, name="gate"),
    path("ops/capacity/gates/<uuid:gate_id>/state/", gates.gate_state, name="gate_state"),
    path("ops/capacity/gates/<uuid:gate_id>/stop/", gates.gate_stop, name="gate_stop"),
]
