"""Addresses of retrieval's pages, below `/t/<tenant_slug>/`."""

from __future__ import annotations

from django.urls import path

from apps.retrieval import embedding_page, views

app_name = "retrieval"

urlpatterns = [
    path(
        "documents/<uuid:collection_id>/<uuid:document_id>/try/",
        views.try_question,
        name="try_question",
    ),
    path("quality/embedding/", embedding_page.embedding, name="embedding"),
    path("quality/embedding/start/", embedding_page.start, name="start_build"),
    path("quality/embedding/<uuid:build_id>/", embedding_page.change, name="change_build"),
]
