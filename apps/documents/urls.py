"""Addresses of documents pages, below `/t/<tenant_slug>/`."""

from __future__ import annotations

from django.urls import path

from apps.documents import views

app_name = "documents"

_COLLECTION = "documents/<uuid:collection_id>/"
_DOCUMENT = f"{_COLLECTION}<uuid:document_id>/"

urlpatterns = [
    path("documents/", views.home, name="home"),
    path("documents/create/", views.create_collection, name="create_collection"),
    path("documents/pages/<uuid:document_id>/<int:page>.png", views.page_image, name="page_image"),
    path(_COLLECTION, views.collection, name="collection"),
    path(f"{_COLLECTION}edit/", views.edit_collection, name="edit_collection"),
    path(f"{_COLLECTION}delete/", views.delete_collection, name="delete_collection"),
    path(f"{_COLLECTION}list/", views.document_list, name="document_list"),
    path(f"{_COLLECTION}upload/", views.upload, name="upload"),
    path(_DOCUMENT, views.document, name="document"),
    path(f"{_DOCUMENT}state/", views.document_state, name="document_state"),
    path(f"{_DOCUMENT}download/", views.download, name="download"),
    path(f"{_DOCUMENT}retry/", views.retry, name="retry"),
    path(f"{_DOCUMENT}delete/", views.delete, name="delete"),
]
