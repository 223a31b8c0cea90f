from __future__ import annotations

from django.apps import AppConfig


class ChatConfig(AppConfig):
    name = "apps.chat"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.chat.api import RagModels
        from apps.gateway.api.providers import register

        register(RagModels())
