from __future__ import annotations

from django.apps import AppConfig


class EvalsConfig(AppConfig):
    name = "apps.evals"

    def ready(self) -> None:
        from apps.evals import gate

        gate.register()
