"""Addresses of the quality room and of the search page, below `/t/<tenant_slug>/`."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "evals"

urlpatterns: list[URLPattern] = []
