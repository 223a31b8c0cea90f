"""Site administration of upstreams, the models over them, and what they cost."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import transaction
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import TabularInline

from apps.gateway.approvals import approved_of, route_states, would_serve
from apps.gateway.calling import catalogue
from apps.gateway.calling.checks import check_key_variable, check_kinds, check_url
from apps.gateway.calling.configured import OWN_POSITION
from apps.gateway.calling.own import own_models
from apps.gateway.calling.serving import serving_of
from apps.gateway.models import GatewayModel, GatewayRoute, GatewayUpstream, Price
from apps.telemetry.admin import AuditedAdmin

# What nobody means: a slip of a few digits. In units of the currency.
DEAREST_MTOK = 10_000
DEAREST_HOUR = 100_000
FASTEST_TOKENS_PER_S = 100_000_000
LONGEST_S = 24 * 3600
MOST_CALLS = 100_000
MOST_TOKENS = 100_000_000
FURTHEST = timedelta(days=3650)
_MICROS = 1_000_000


def _own_names() -> tuple[set[str], set[str]]:
    """Aliases and upstreams of the settings."""
    own = own_models()
    return {m.alias for m in own}, {route.upstream.name for m in own for route in m.routes}


def _within(form: forms.BaseForm, name: str, least: float, most: float, unit: str) -> None:
    """An error at the field for what is no number of that size."""
    value = form.cleaned_data.get(name)
    if value is None:
        return
    if not math.isfinite(value) or not least <= value <= most:
        form.add_error(name, f"Give {least:,} to {most:,} {unit}.")


def _out_of_service() -> forms.BooleanField:
    return forms.BooleanField(
        required=False,
        label="Save although a model is then out of service",
        help_text="Tick this only where a model may be unreachable until its changed route has "
        "passed its gate. To change without a gap, leave this route as it is, add the changed one "
        "beside it, and have it pass its gate first (Operations, Capacity, Gates).",
    )


class UpstreamForm(forms.ModelForm):  # type: ignore[type-arg]
    out_of_service = _out_of_service()

    class Meta:
        model = GatewayUpstream
        fields = "__all__"  # noqa: DJ007 - every field is for operations to set
        help_texts: ClassVar = {
            "name": "Stored in the ledger and in prices; cannot be changed later.",
            "url": "TGI and TEI: the server's root. OpenAI-compatible: up to and including /v1.",
            "key_variable": "Environment variable that holds the bearer key; its name begins with "
            "UPSTREAM_KEY_. The key itself is never stored here.",
            "max_concurrency": "Calls at the same time, over all processes of the site.",
            "queue_timeout_s": "Longest wait for one of those places.",
            "first_token_timeout_s": "Silence after which another upstream is tried.",
            "silence_timeout_s": "Longest silence between two tokens.",
            "deadline_s": "Longest time for a whole call.",
        }

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if name in _own_names()[1]:
            raise ValidationError("The settings have an upstream of that name.")
        return name

    def clean_url(self) -> str:
        url = str(self.cleaned_data["url"])
        check_url(url)
        return url.rstrip("/")

    def clean_key_variable(self) -> str:
        name = str(self.cleaned_data["key_variable"])
        check_key_variable(name)
        return name

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        _within(self, "max_concurrency", 1, MOST_CALLS, "calls")
        _within(self, "queue_timeout_s", 0, LONGEST_S, "seconds")
        for name in ("first_token_timeout_s", "silence_timeout_s", "deadline_s"):
            _within(self, name, 0.1, LONGEST_S, "seconds")
        if self.instance.pk and not self.errors and not cleaned.get("out_of_service"):
            self._check_service(cleaned)
        return cleaned

    def _check_service(self, cleaned: dict[str, Any]) -> None:
        """A server of another kind or address may serve something else altogether."""
        changed = GatewayUpstream(name=self.instance.name, kind=cleaned["kind"], url=cleaned["url"])
        for model in GatewayModel.objects.filter(routes__upstream=self.instance.pk).distinct():
            routes = list(model.routes.select_related("model", "upstream"))
            after = [
                (model.alias, serving_of(route, upstream=changed).fingerprint)
                if route.upstream_id == self.instance.pk
                else (model.alias, serving_of(route).fingerprint)
                for route in routes
            ]
            if _is_served(model) and not approved_of([model.alias]) & set(after):
                self.add_error("out_of_service", _outage(model.alias))


def _is_served(model: GatewayModel) -> bool:
    """Whether a route of it, as it is stored, answers by right."""
    if settings.ROUTE_GATES != "on" or model.kind != GatewayModel.Kind.CHAT:
        return False
    return any(state.in_force for state in route_states(model_id=model.pk))


def _outage(alias: str) -> str:
    return (
        f"This would put the model {alias} out of service: none of its routes would have passed "
        "its gate. Leave the route in force as it is and add the changed one beside it, or "
        "rehearse the model's new figures in a gate first; or tick the box to save all the same."
    )


class ModelForm(forms.ModelForm):  # type: ignore[type-arg]
    out_of_service = _out_of_service()
    prompt = forms.ChoiceField(
        choices=[("instruct", "instruct"), ("extractive", "extractive")],
        help_text="How it is best asked: extractive for very small models.",
    )

    class Meta:
        model = GatewayModel
        fields = "__all__"  # noqa: DJ007 - every field is for operations to set
        help_texts: ClassVar = {
            "alias": "What callers name it by; cannot be changed later.",
            "context_tokens": "Prompt and answer together.",
            "max_tokens": "Longest answer.",
            "passages": "How many passages suit it.",
            "position": f"In lists. Below {OWN_POSITION}: before the models of the settings, and "
            "the first of all is the default.",
        }

    def clean_alias(self) -> str:
        alias = str(self.cleaned_data["alias"]).strip()
        if alias in _own_names()[0]:
            raise ValidationError("The settings have a model of that name.")
        if alias.startswith("rag/"):
            raise ValidationError("Names that begin with rag/ are those of collections.")
        if not alias.isprintable() or any(c.isspace() for c in alias):
            raise ValidationError("A name is one word.")
        return alias

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        _within(self, "context_tokens", 2, MOST_TOKENS, "tokens")
        _within(self, "max_tokens", 1, MOST_TOKENS, "tokens")
        _within(self, "passages", 1, 1000, "passages")
        context, longest = cleaned.get("context_tokens"), cleaned.get("max_tokens")
        if context is not None and longest is not None and longest >= context:
            self.add_error("max_tokens", "The longest answer must leave room for a prompt.")
        return cleaned


class RouteForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = GatewayRoute
        fields = "__all__"  # noqa: DJ007 - every field is for operations to set
        help_texts: ClassVar = {
            "upstream_model": "What the model is called there. Named, the same at another server "
            "is a replica and needs no gate.",
            "precision": "Of weights and cache, as you call it: BF16, FP8, Q4_K_M, KV q8_0.",
            "engine": "Its name and version: vLLM 0.11.0, llama.cpp b6900.",
            "context_policy": "What it does with long contexts, where that is its own: sliding "
            "window, prefix cache, slots of 4K.",
        }

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        _within(self, "weight", 1, 1000, "shares")
        upstream, model = cleaned.get("upstream"), cleaned.get("model") or self.instance.model
        if upstream is not None and model is not None:
            check_kinds(model.kind, upstream.kind)
        return cleaned


class RouteFormSet(BaseInlineFormSet):  # type: ignore[type-arg]
    def clean(self) -> None:
        """A change that leaves a served model without a route in force is confirmed first."""
        super().clean()
        model = self.instance  # with what the form above says, not saved yet
        if any(self.errors) or not model.pk or model._state.adding:
            return
        if self.data.get("out_of_service") or not _is_served(model):
            return
        kept = [form.instance for form in self.forms if form not in self.deleted_forms]
        routes = [route for route in kept if route.upstream_id]
        if not would_serve(model, routes):
            raise ValidationError(_outage(model.alias))


class PriceForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Price
        fields = "__all__"  # noqa: DJ007 - every field is for operations to set
        help_texts: ClassVar = {
            "upstream": "Its name, also of one that the settings make: tgi, openai, embedding, "
            "reranking.",
            "upstream_model": "What the model is called there. Empty: any model there.",
            "valid_from": "From this moment on, until a later price of the same.",
            "input_micros_per_mtok": "Millionths of the currency for a million tokens read.",
            "cached_input_micros_per_mtok": "For those it had in its cache. Empty: as the others.",
            "output_micros_per_mtok": "For a million tokens written.",
            "hour_micros": "For one's own machine, in place of prices a token: all its GPUs, an "
            "hour, in millionths of the currency.",
            "input_tokens_per_s": "With a price an hour: tokens read a second, measured at full "
            "load.",
            "output_tokens_per_s": "Tokens written a second, measured at full load.",
        }

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        mtok = ("input_micros_per_mtok", "cached_input_micros_per_mtok", "output_micros_per_mtok")
        for name in mtok:
            _within(self, name, 0, DEAREST_MTOK * _MICROS, "micros")
        _within(self, "hour_micros", 0, DEAREST_HOUR * _MICROS, "micros")
        for name in ("input_tokens_per_s", "output_tokens_per_s"):
            _within(self, name, 0.001, FASTEST_TOKENS_PER_S, "tokens a second")
        self._check_hourly(cleaned)
        begins = cleaned.get("valid_from")
        if begins is not None and abs(begins - timezone.now()) > FURTHEST:
            self.add_error("valid_from", "Give a day within ten years of today.")
        return cleaned

    def _check_hourly(self, cleaned: dict[str, Any]) -> None:
        hourly = ("hour_micros", "input_tokens_per_s", "output_tokens_per_s")
        given = [name for name in hourly if cleaned.get(name) is not None]
        if given and len(given) < len(hourly) and not self.errors:
            self.add_error(
                "hour_micros", "A price an hour needs both throughputs, and they need a price."
            )
        if given and (
            cleaned.get("input_micros_per_mtok") or cleaned.get("output_micros_per_mtok")
        ):
            self.add_error("hour_micros", "Give a price an hour or prices a token, not both.")

    def clean_upstream(self) -> str:
        name = str(self.cleaned_data["upstream"]).strip()
        known = _own_names()[1] | set(GatewayUpstream.objects.values_list("name", flat=True))
        # Prices may be entered before the server is; a slip would leave calls without one.
        if name not in known:
            raise ValidationError(f"There is no upstream of that name. Known: {_listed(known)}.")
        return name


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


class _Audited(AuditedAdmin):
    """Every change counts at once in this process and in seconds in the others."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        transaction.on_commit(catalogue.forget)

    def note(self, request: HttpRequest, obj: Any, done: str) -> None:
        super().note(request, obj, done)
        transaction.on_commit(catalogue.forget)


class RouteInline(TabularInline):  # type: ignore[misc]
    model = GatewayRoute
    form = RouteForm
    formset = RouteFormSet
    extra = 1


@admin.register(GatewayUpstream)
class GatewayUpstreamAdmin(_Audited):
    form = UpstreamForm
    subject = "upstream"
    list_display = ("name", "kind", "url", "max_concurrency", "enabled", "problem")
    search_fields = ("name", "url")

    @admin.display(description="Problem")
    def problem(self, upstream: GatewayUpstream) -> str:
        """Why it is not in use, where it is not."""
        told = f"upstream {upstream.name}: "
        return "; ".join(
            problem.removeprefix(told)
            for problem in catalogue.current().problems
            if problem.startswith(told)
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("name",) if obj is not None else ()


@admin.register(GatewayModel)
class GatewayModelAdmin(_Audited):
    form = ModelForm
    subject = "model"
    inlines: ClassVar = [RouteInline]
    list_display = ("alias", "label", "kind", "position", "enabled", "problem")
    search_fields = ("alias", "label")

    @admin.display(description="Problem")
    def problem(self, model: GatewayModel) -> str:
        """Why it, or a route of it, is not in use."""
        told = (f"model {model.alias}: ", f"model {model.alias} at ")
        return "; ".join(p for p in catalogue.current().problems if p.startswith(told))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("alias", "kind") if obj is not None else ()


@admin.register(Price)
class PriceAdmin(_Audited):
    """A price that has been in force stays: the ledger names it. Another one is a later row."""

    form = PriceForm
    subject = "price"
    list_display = (
        "upstream",
        "upstream_model",
        "valid_from",
        "input_micros_per_mtok",
        "output_micros_per_mtok",
        "hour_micros",
        "note",
    )
    list_filter = ("upstream",)
    ordering = ("upstream", "upstream_model", "-valid_from")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _still_to_come(obj) and bool(super().has_change_permission(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _still_to_come(obj) and bool(super().has_delete_permission(request, obj))


def _still_to_come(price: Price | None) -> bool:
    return price is None or price.valid_from > timezone.now()
