"""The audit trail and the spans, to look at."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from apps.telemetry.models import AuditEvent, Span


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]
    """Rows that are looked at, and changed by nobody."""

    show_full_result_count = False  # counting millions of rows takes longer than showing twenty

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "action", "actor_id", "tenant_id", "subject_id")
    ordering = ("-at",)
    search_fields = ("=tenant_id", "=actor_id", "action", "=subject_id")


@admin.register(Span)
class SpanAdmin(ReadOnlyAdmin):
    list_display = ("started_at", "kind", "hop", "status", "wait_ms", "work_ms", "tenant_id")
    list_filter = ("kind", "hop", "status")
    ordering = ("-id",)
    search_fields = ("=trace_id", "=tenant_id")
