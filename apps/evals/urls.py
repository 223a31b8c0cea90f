"""Addresses of the quality room and of the search page, below `/t/<tenant_slug>/`."""

from __future__ import annotations

from django.urls import path

from apps.evals.views import (
    alerts,
    comparing,
    overview,
    proposals,
    recall,
    runs,
    search,
    sets,
    tuning,
)

app_name = "evals"

_CURVE = "quality/tuning/<uuid:curve_id>/"
_SET = "quality/sets/<uuid:set_id>/"
_QUESTION = f"{_SET}questions/<uuid:question_id>/"
_RUN = "quality/runs/<uuid:run_id>/"
_COMPARE = "quality/compare/<uuid:run_id>/<uuid:other_run_id>/"

urlpatterns = [
    path("search/", search.search, name="search"),
    path("search/results/", search.search_results, name="search_results"),
    path("search/marking/", search.marking, name="marking"),
    path("search/mark/", search.mark, name="mark"),
    path("quality/proposals/", proposals.proposals, name="proposals"),
    path("quality/proposals/<uuid:proposal_id>/", proposals.review, name="review"),
    path("quality/sets/", sets.set_list, name="set_list"),
    path("quality/sets/new/", sets.set_new, name="set_new"),
    path(_SET, sets.labelled_set, name="set"),
    path(f"{_SET}edit/", sets.edit_set, name="edit_set"),
    path(f"{_SET}delete/", sets.delete_set, name="delete_set"),
    path(f"{_SET}upload/", sets.set_upload, name="set_upload"),
    path(f"{_SET}export/", sets.export_set, name="export_set"),
    path(f"{_SET}questions/", sets.add_question, name="add_question"),
    path(_QUESTION, sets.question, name="question"),
    path(f"{_QUESTION}delete/", sets.delete_question, name="delete_question"),
    path(f"{_QUESTION}labels/<int:label_id>/delete/", sets.delete_label, name="delete_label"),
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
    path("quality/tuning/", tuning.tuning, name="tuning"),
    path("quality/tuning/settings/", tuning.use_settings, name="use_settings"),
    path("quality/tuning/profiles/<uuid:profile_id>/", tuning.use_profile, name="use_profile"),
    path(_CURVE, tuning.curve, name="curve"),
    path(f"{_CURVE}state/", tuning.curve_state, name="curve_state"),
    path(f"{_CURVE}cancel/", tuning.stop_curve, name="stop_curve"),
    path(f"{_CURVE}use/", tuning.use_curve, name="use_curve"),
    path("quality/recall/", recall.recall, name="recall"),
]
