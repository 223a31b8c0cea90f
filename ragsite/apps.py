from __future__ import annotations

from django.apps import AppConfig


class RagsiteConfig(AppConfig):
    name = "ragsite"
