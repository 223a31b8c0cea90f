"""What operations may enter into the catalogue. A slip is told; nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import IO, Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminSingleDateWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from apps.capacity.arithmetic import KV16, Derived, figure, kv_bytes_per_token
from apps.capacity.catalogue.checkpoint import Checkpoint, read_checkpoint
from apps.capacity.catalogue.fields import LARGEST_BYTES
from apps.capacity.catalogue.selectors import to_chip, to_shape
from apps.capacity.errors import CatalogueError, PlanInvalid
from apps.capacity.models import Gpu, ListPrice, ModelShape, RentalPrice

# What nobody means: a slip of a few digits. In units of the currency.
DEAREST_HOUR = 100_000
DEAREST_MTOK = 10_000
_MICROS = 1_000_000
_EARLIEST = date(2015, 1, 1)


class _Dated(forms.ModelForm):  # type: ignore[type-arg]
    """A row that says when it was so."""

    dated: ClassVar[str] = "read_on"

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        day = cleaned.get(self.dated)
        if day is not None and not _EARLIEST <= day <= timezone.localdate():
            self.add_error(self.dated, f"Give a day from {_EARLIEST:%Y} on, not after today.")
        return cleaned

    def check_with(self, made: Callable[[], object]) -> None:
        """What the arithmetic refuses, in its words and not in the database's."""
        if self.errors:
            return
        try:
            made()
        except PlanInvalid as exc:
            self._validate_constraints = False
            self.add_error(None, str(exc))

    def check_micros(self, dearest: int, *names: str) -> None:
        """Errors at the fields that hold no such sum."""
        for name in names:
            value = self.cleaned_data.get(name)
            if value is not None and not 0 <= value <= dearest * _MICROS:
                self.add_error(name, f"Give 0 to {dearest * _MICROS:,} micros.")


class ShapeForm(_Dated):
    class Meta:
        model = ModelShape
        fields = "__all__"  # noqa: DJ007 - every field is for operations to set
        help_texts: ClassVar = {
            "name": "As its publisher calls it.",
            "head_dim": "Of latent attention: of a key, without its rope part.",
            "latent_dim": "Latent attention only: kv_lora_rank.",
            "rope_dim": "Latent attention only: qk_rope_head_dim.",
            "active_parameters": "What one token uses: fewer than all in a mixture of experts.",
            "experts": "Routed ones of a layer. 0: no mixture.",
            "experts_active": "Routed ones that a token uses.",
            "window_tokens": "0: no layer has a window.",
            "window_layers": "Layers that keep no more than the window.",
            "vocabulary": "Rows of the embedding, which stays at 16 bits. 0: not known.",
            "tied_embeddings": "One table for input and output.",
            "source": "Where these figures are from: an address.",
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        self.check_with(lambda: to_shape(ModelShape(**cleaned)))
        return cleaned


class GpuForm(_Dated):
    class Meta:
        model = Gpu
        fields = "__all__"  # noqa: DJ007 - every field is for operations to set
        help_texts: ClassVar = {
            "memory_bytes": "As its maker prints it: 80 GB are 80,000,000,000.",
            "bandwidth_gb_s": "Of its memory, 1e9 bytes a second.",
            "bf16_tflops": "Dense. Tables often print the sparse figure, twice that.",
            "fp8_tflops": "Dense. Empty: it has none.",
            "int8_tops": "Dense. Empty: it has none.",
            "source": "Where these figures are from: an address.",
            "note": "What is uncertain about them.",
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        self.check_with(lambda: to_chip(Gpu(**cleaned)))
        return cleaned


class RentalForm(_Dated):
    dated: ClassVar[str] = "as_of"

    class Meta:
        model = RentalPrice
        fields = "__all__"  # noqa: DJ007 - every field is for operations to set
        help_texts: ClassVar = {
            "provider": "Or a kind of provider.",
            "low_micros_per_hour": "Of one GPU, in millionths of the currency.",
            "high_micros_per_hour": "The same where there is one price.",
            "as_of": "The newest of each provider counts.",
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        self.check_micros(DEAREST_HOUR, "low_micros_per_hour", "high_micros_per_hour")
        low, high = cleaned.get("low_micros_per_hour"), cleaned.get("high_micros_per_hour")
        if low is not None and high is not None and low > high:
            self.add_error("high_micros_per_hour", "The high price is below the low one.")
        return cleaned


class ListPriceForm(_Dated):
    dated: ClassVar[str] = "as_of"
    comparable_to = forms.ChoiceField(
        required=False,
        widget=UnfoldAdminSelectWidget,
        help_text="The model of this catalogue that it stands beside.",
    )

    class Meta:
        model = ListPrice
        fields = "__all__"  # noqa: DJ007 - every field is for operations to set
        help_texts: ClassVar = {
            "input_micros_per_mtok": "Millionths of the currency for a million tokens read.",
            "cached_input_micros_per_mtok": "For those in its cache. Empty: as the others.",
            "output_micros_per_mtok": "For a million tokens written.",
            "hour_micros": "Endpoints: an hour of the whole instance.",
            "as_of": "The newest of each provider and model counts.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = list(ModelShape.objects.values_list("name", flat=True))
        # One that was since deleted stays until somebody chooses another.
        if self.instance.comparable_to and self.instance.comparable_to not in names:
            names.append(self.instance.comparable_to)
        field = self.fields["comparable_to"]
        field.choices = [("", "none"), *((name, name) for name in names)]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        tokens = ("input_micros_per_mtok", "cached_input_micros_per_mtok", "output_micros_per_mtok")
        self.check_micros(DEAREST_MTOK, *tokens)
        self.check_micros(DEAREST_HOUR, "hour_micros")
        is_endpoint = cleaned.get("offer") == ListPrice.Offer.ENDPOINT
        has_hour = cleaned.get("hour_micros") is not None
        if is_endpoint and not has_hour and "hour_micros" not in self.errors:
            self.add_error("hour_micros", "An endpoint has a price an hour.")
        if is_endpoint and any(cleaned.get(name) for name in tokens):
            self.add_error("offer", "An endpoint has no prices a token.")
        if not is_endpoint and has_hour:
            self.add_error("hour_micros", "A managed API has no price an hour.")
        return cleaned


class CheckpointForm(forms.Form):
    """A model from its `config.json`, pasted or as a file."""

    name = forms.CharField(
        max_length=200, widget=UnfoldAdminTextInputWidget, help_text="As its publisher calls it."
    )
    source = forms.CharField(
        max_length=300,
        widget=UnfoldAdminTextInputWidget,
        help_text="Where the file is from: an address.",
    )
    read_on = forms.DateField(widget=UnfoldAdminSingleDateWidget)
    file = forms.FileField(
        required=False,
        widget=UnfoldAdminFileFieldWidget,
        label="config.json",
        help_text="From the checkpoint, as it is.",
    )
    content = forms.CharField(
        required=False,
        max_length=LARGEST_BYTES,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 12, "spellcheck": "false"}),
        label="Or its text",
    )

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if ModelShape.objects.filter(name=name).exists():
            raise ValidationError(f"There is a model {name!r} already: give another name.")
        return name

    def clean_read_on(self) -> date:
        day: date = self.cleaned_data["read_on"]
        if not _EARLIEST <= day <= timezone.localdate():
            raise ValidationError(f"Give a day from {_EARLIEST:%Y} on, not after today.")
        return day

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        file, content = cleaned.get("file"), cleaned.get("content") or ""
        if not file and not content.strip() and "content" not in self.errors:
            self.add_error("file", "Give the file, or paste its text.")
        elif "name" in cleaned and "content" not in self.errors:
            self._read(cleaned, file, content)
        return cleaned

    def _read(self, cleaned: dict[str, Any], file: IO[bytes] | None, content: str) -> None:
        # No more than tells that it is too large.
        given = file.read(LARGEST_BYTES + 1) if file else content
        try:
            cleaned["checkpoint"] = read_checkpoint(given, name=cleaned["name"])
        except CatalogueError as exc:
            self.add_error("file" if file else "content", str(exc))
            return
        cleaned["content"] = given.decode("utf-8-sig") if isinstance(given, bytes) else given


def described(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    """What was read, for a look before it is saved."""
    shape = checkpoint.shape
    kv: Derived = kv_bytes_per_token(shape, KV16)
    rows = [
        ("Kind", checkpoint.kind),
        ("Parameters", figure(shape.parameters)),
        ("Of them used for a token", figure(shape.active_parameters)),
        ("Layers", figure(shape.layers)),
        ("Hidden size", figure(shape.hidden)),
        ("Heads", figure(shape.heads)),
        ("KV heads", figure(shape.kv_heads)),
        ("Head size", figure(shape.head_dim)),
        ("Vocabulary", figure(shape.vocabulary)),
        ("One table for input and output", "yes" if shape.tied_embeddings else "no"),
        ("Context", f"{figure(shape.context_tokens)} tokens"),
        ("KV of a token, 16-bit", f"{kv.text}: {kv.formula}"),
    ]
    if shape.attention == "latent":
        rows.insert(8, ("Latent and rope size", f"{shape.latent_dim} and {shape.rope_dim}"))
    if shape.experts:
        rows.append(("Experts", f"{shape.experts}, of which a token uses {shape.experts_active}"))
    if shape.window_layers:
        told = f"{figure(shape.window_tokens)} tokens in {shape.window_layers} layers"
        rows.append(("Window", told))
    return rows
