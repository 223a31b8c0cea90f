"""Site administration of what is known of models, GPUs and prices."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from unfold.decorators import action

from apps.capacity.arithmetic import figure, quantity
from apps.capacity.catalogue.forms import (
    CheckpointForm,
    GpuForm,
    ListPriceForm,
    RentalForm,
    ShapeForm,
    described,
)
from apps.capacity.catalogue.services import add_checkpoint
from apps.capacity.errors import CatalogueError
from apps.capacity.models import Gpu, ListPrice, ModelShape, RentalPrice
from apps.telemetry.admin import AuditedAdmin
from apps.tenants.money import format_money


@admin.register(ModelShape)
class ModelShapeAdmin(AuditedAdmin):
    form = ShapeForm
    subject = "model_shape"
    actions_list = ("from_config",)
    list_display = ("name", "all_parameters", "used", "layers", "kv_heads", "read_on", "source")
    search_fields = ("name",)

    @admin.display(description="Parameters", ordering="parameters")
    def all_parameters(self, row: ModelShape) -> str:
        return figure(row.parameters)

    @admin.display(description="Used for a token", ordering="active_parameters")
    def used(self, row: ModelShape) -> str:
        return figure(row.active_parameters)

    @action(  # type: ignore[untyped-decorator]
        description="Add from config.json", url_path="from-config", permissions=["add"]
    )
    def from_config(self, request: HttpRequest) -> HttpResponse:
        """Read a checkpoint's file, show what was read, and keep it once that is confirmed."""
        form = CheckpointForm(
            request.POST or None,
            request.FILES or None,
            initial={"read_on": timezone.localdate()},
        )
        is_valid = request.method == "POST" and form.is_valid()
        if is_valid and "save" in request.POST:
            saved = self._save(request, form)
            if saved is not None:
                return saved
        return self._page(request, form, preview=is_valid and form.is_valid())

    def _save(self, request: HttpRequest, form: CheckpointForm) -> HttpResponse | None:
        cleaned = form.cleaned_data
        try:
            row = add_checkpoint(
                checkpoint=cleaned["checkpoint"],
                source=cleaned["source"],
                read_on=cleaned["read_on"],
                actor_id=request.user.pk,
            )
        except CatalogueError as exc:
            form.add_error("name", str(exc))
            return None
        messages.success(request, f"{row.name} was added.")
        return HttpResponseRedirect(reverse("admin:capacity_modelshape_change", args=[row.pk]))

    def _page(
        self, request: HttpRequest, form: CheckpointForm, *, preview: bool
    ) -> TemplateResponse:
        context: dict[str, Any] = {
            **self.admin_site.each_context(request),
            "opts": self.model._meta,
            "title": "Add a model from config.json",
            "form": form,
            "media": self.media + form.media,
        }
        if preview:
            checkpoint = form.cleaned_data["checkpoint"]
            # A file is not sent again with the confirmation; its text is.
            again = {name: form.cleaned_data[name] for name in ("name", "source", "content")}
            again["read_on"] = form.cleaned_data["read_on"].isoformat()
            context |= {
                "rows": described(checkpoint),
                "notes": checkpoint.notes,
                "again": again,
            }
        return TemplateResponse(request, "admin/capacity/modelshape/from_config.html", context)


@admin.register(Gpu)
class GpuAdmin(AuditedAdmin):
    form = GpuForm
    subject = "gpu"
    list_display = (
        "name",
        "memory",
        "bandwidth_gb_s",
        "bf16_tflops",
        "fp8_tflops",
        "int8_tops",
        "read_on",
    )
    search_fields = ("name",)

    @admin.display(description="Memory", ordering="memory_bytes")
    def memory(self, row: Gpu) -> str:
        return quantity(row.memory_bytes, "bytes")


@admin.register(RentalPrice)
class RentalPriceAdmin(AuditedAdmin):
    """A new price is a new row: the newest of each provider counts."""

    form = RentalForm
    subject = "rental_price"
    list_display = ("gpu", "provider", "low", "high", "as_of", "source")
    list_filter = ("gpu",)
    list_select_related = ("gpu",)
    search_fields = ("provider",)

    @admin.display(description="From, an hour", ordering="low_micros_per_hour")
    def low(self, price: RentalPrice) -> str:
        return format_money(price.low_micros_per_hour)

    @admin.display(description="To, an hour", ordering="high_micros_per_hour")
    def high(self, price: RentalPrice) -> str:
        return format_money(price.high_micros_per_hour)


@admin.register(ListPrice)
class ListPriceAdmin(AuditedAdmin):
    """A new price is a new row: the newest of each provider and model counts."""

    form = ListPriceForm
    subject = "list_price"
    list_display = ("provider", "model", "offer", "read", "written", "hour", "as_of", "source")
    list_filter = ("offer", "provider")
    search_fields = ("provider", "model")

    @admin.display(description="Million tokens read", ordering="input_micros_per_mtok")
    def read(self, price: ListPrice) -> str:
        return "" if price.hour_micros is not None else format_money(price.input_micros_per_mtok)

    @admin.display(description="Written", ordering="output_micros_per_mtok")
    def written(self, price: ListPrice) -> str:
        return "" if price.hour_micros is not None else format_money(price.output_micros_per_mtok)

    @admin.display(description="An hour", ordering="hour_micros")
    def hour(self, price: ListPrice) -> str:
        return "" if price.hour_micros is None else format_money(price.hour_micros)
