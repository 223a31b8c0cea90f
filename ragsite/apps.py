from __future__ import annotations

from django.apps import AppConfig


class RagsiteConfig(AppConfig):
    name = "ragsite"

    def ready(self) -> None:
        """Register the system checks."""
        from ragsite import checks  # noqa: F401
