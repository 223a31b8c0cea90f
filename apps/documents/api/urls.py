"""Addresses of the API, below `/api/v1/`."""

from __future__ import annotations

from django.urls import path, re_path

from apps.documents.api import views
from apps.documents.api.boundary import endpoint, nothing_here, reads, writes

app_name = "api"

urlpatterns = [
    path("openapi.json", views.openapi, name="openapi"),
    path("collections", endpoint(get=reads(views.list_collections)), name="collections"),
    path(
        "collections/<uuid:collection_id>/documents",
        endpoint(get=reads(views.list_documents), post=writes(views.upload_document)),
        name="documents",
    ),
    path(
        "documents/<uuid:document_id>",
        endpoint(get=reads(views.get_document), delete=writes(views.delete_document)),
        name="document",
    ),
    path(
        "documents/<uuid:document_id>/retry",
        endpoint(post=writes(views.retry_document)),
        name="retry",
    ),
    path(
        "documents/<uuid:document_id>/password",
        endpoint(post=writes(views.give_password)),
        name="password",
    ),
    path("batches", endpoint(post=writes(views.create_batch)), name="batches"),
    path("batches/<uuid:batch_id>", endpoint(get=reads(views.get_batch)), name="batch"),
    re_path("", nothing_here),
]
