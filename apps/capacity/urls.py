"""Addresses of the capacity pages; all are for operations."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "capacity"

urlpatterns: list[URLPattern] = []
