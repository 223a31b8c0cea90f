from __future__ import annotations

from django.apps import AppConfig


class DocumentsConfig(AppConfig):
    name = "apps.documents"
    default_auto_field = "django.db.models.BigAutoField"
