"""The audit trail and the spans, to look at; and rows whose changes go into the trail."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from apps.telemetry.models import AuditEvent, Span
from apps.telemetry.services import record_audit


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]
    """Rows that are looked at, and changed by nobody."""

    show_full_result_count = False  # counting millions of rows takes longer than showing twenty

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class AuditedAdmin(ModelAdmin):  # type: ignore[misc]
    """Rows whose every change is noted, as `subject`.added, .changed or .deleted."""

    subject = ""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        self.note(request, obj, "changed" if change else "added")

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.note(request, obj, "deleted")
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        for obj in queryset:
            self.note(request, obj, "deleted")
        super().delete_queryset(request, queryset)

    def note(self, request: HttpRequest, obj: Any, done: str) -> None:
        record_audit(
            action=f"{self.subject}.{done}",
            tenant_id=None,
            actor_id=request.user.pk,
            subject_id=obj.pk,
        )


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
