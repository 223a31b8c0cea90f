from __future__ import annotations

from django.apps import AppConfig


class CapacityConfig(AppConfig):
    name = "apps.capacity"
