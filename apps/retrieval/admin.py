"""Site administration of the embedding models that tenants may choose."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from apps.retrieval.models import EmbeddingIndex, EmbeddingModel


@admin.register(EmbeddingModel)
class EmbeddingModelAdmin(ModelAdmin):  # type: ignore[misc]
    """What an index was built with does not change under it: another model is another row."""

    list_display = ("label", "kind", "location", "languages", "created_at")
    search_fields = ("label", "location")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if obj is None or not EmbeddingIndex.objects.filter(embedder=obj).exists():
            return ()
        return ("kind", "query_prompt", "document_prompt")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Not while an index is by it."""
        in_use = obj is not None and EmbeddingIndex.objects.filter(embedder=obj).exists()
        return not in_use and bool(super().has_delete_permission(request, obj))
