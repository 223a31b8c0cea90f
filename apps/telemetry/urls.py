from __future__ import annotations

from django.urls import path

from apps.telemetry import views

app_name = "telemetry"

urlpatterns = [
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("ops/hops/", views.hops, name="hops"),
    path("metrics", views.metrics, name="metrics"),
]
