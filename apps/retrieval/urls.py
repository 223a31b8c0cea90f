"""Addresses of retrieval's pages, below `/t/<tenant_slug>/`."""

from __future__ import annotations

from django.urls import path

from apps.retrieval import views

app_name = "retrieval"

urlpatterns = [
    path(
        "documents/<uuid:collection_id>/<uuid:document_id>/try/",
        views.try_question,
        name="try_question",
    ),
]
