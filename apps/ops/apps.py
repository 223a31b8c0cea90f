from __future__ import annotations

from django.apps import AppConfig


class OpsConfig(AppConfig):
    name = "apps.ops"
