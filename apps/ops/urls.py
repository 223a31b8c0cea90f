"""Addresses of the pages for operations."""

from __future__ import annotations

from django.urls import path

from apps.ops import views

app_name = "ops"

urlpatterns = [
    path("ops/ingestion/", views.ingestion, name="ingestion"),
    path("ops/quality/", views.quality, name="quality"),
]
