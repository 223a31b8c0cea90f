"""Addresses of documents pages, below `/t/<tenant_slug>/`."""

from __future__ import annotations

from django.urls import path

from apps.documents.views import collections, documents, sources, uploads

app_name = "documents"

_COLLECTION = "documents/<uuid:collection_id>/"
_DOCUMENT = f"{_COLLECTION}<uuid:document_id>/"
_PAGES = "documents/pages/<uuid:document_id>/"

urlpatterns = [
    path("documents/", collections.home, name="home"),
    path("documents/create/", collections.create_collection, name="create_collection"),
    path(f"{_PAGES}<int:page>.png", documents.page_image, name="page_image"),
    path(f"{_PAGES}<int:page>/<uuid:chunk_id>/", documents.passage_marks, name="passage_marks"),
    path(_COLLECTION, collections.collection, name="collection"),
    path(f"{_COLLECTION}edit/", collections.edit_collection, name="edit_collection"),
    path(f"{_COLLECTION}delete/", collections.delete_collection, name="delete_collection"),
    path(f"{_COLLECTION}list/", collections.document_list, name="document_list"),
    path(f"{_COLLECTION}retry/", collections.retry_failed, name="retry_failed"),
    path(f"{_COLLECTION}upload/", uploads.upload, name="upload"),
    path(f"{_COLLECTION}batches/", uploads.open_batch, name="open_batch"),
    path(f"{_COLLECTION}batches/<uuid:batch_id>/", uploads.send_files, name="send_files"),
    path(f"{_COLLECTION}sources/", sources.sources, name="sources"),
    path(f"{_COLLECTION}sources/add/", sources.add_source, name="add_source"),
    path(f"{_COLLECTION}sources/<uuid:source_id>/", sources.change_source, name="change_source"),
    path(_DOCUMENT, documents.document, name="document"),
    path(f"{_DOCUMENT}state/", documents.document_state, name="document_state"),
    path(f"{_DOCUMENT}download/", documents.download, name="download"),
    path(f"{_DOCUMENT}retry/", documents.retry, name="retry"),
    path(f"{_DOCUMENT}unlock/", documents.unlock, name="unlock"),
    path(f"{_DOCUMENT}decode/", documents.decode, name="decode"),
    path(f"{_DOCUMENT}tags/", documents.tag, name="tag"),
    path(f"{_DOCUMENT}delete/", documents.delete, name="delete"),
]
