from __future__ import annotations

from django.apps import AppConfig


class ChatConfig(AppConfig):
    name = "apps.chat"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_out

        from apps.chat.api import RagModels
        from apps.chat.streams.telling import on_signed_out
        from apps.documents.services.deleting import on_delete
        from apps.gateway.api.providers import register
        from apps.gateway.caching import forget_collection

        register(RagModels())
        on_delete.append(forget_collection)
        user_logged_out.connect(on_signed_out, dispatch_uid="chat")
