"""Addresses of the quality room and of the search page, below `/t/<tenant_slug>/`."""

from __future__ import annotations

from django.urls import path

from apps.evals.views import alerts, comparing, overview, runs

app_name = "evals"

_SET = "quality/sets/<uuid:set_id>/"
_RUN = "quality/runs/<uuid:run_id>/"
_COMPARE = "quality/compare/<uuid:run_id>/<uuid:other_run_id>/"

urlpatterns = [
    path("quality/", overview.quality, name="quality"),
    path(f"{_SET}card/", overview.set_card, name="set_card"),
    path(f"{_SET}change/", overview.set_change, name="set_change"),
    path(f"{_SET}run/", overview.begin_run, name="start_run"),
    path("quality/alerts/", alerts.alerts, name="alerts"),
    path("quality/alerts/<uuid:alert_id>/", alerts.mark_alert, name="mark_alert"),
    path(_RUN, runs.run, name="run"),
    path(f"{_RUN}state/", runs.run_state, name="run_state"),
    path(f"{_RUN}cancel/", runs.stop_run, name="stop_run"),
    path(f"{_RUN}limit/", runs.use_limit, name="use_limit"),
    path(f"{_RUN}questions/", runs.run_questions, name="run_questions"),
    path(f"{_RUN}questions/<uuid:question_id>/", runs.run_question, name="run_question"),
    path(_COMPARE, comparing.compare_runs, name="compare"),
    path(
        f"{_COMPARE}questions/<uuid:question_id>/",
        comparing.compare_question,
        name="compare_question",
    ),
]
