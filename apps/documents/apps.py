from __future__ import annotations

from django.apps import AppConfig


class DocumentsConfig(AppConfig):
    name = "apps.documents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.documents.quotas import stock_of
        from apps.tenants import limits

        limits.stocks.append(stock_of)
