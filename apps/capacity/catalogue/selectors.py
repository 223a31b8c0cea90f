"""What is known of models, GPUs and prices. Of no tenant."""

from __future__ import annotations

from apps.capacity.arithmetic import Chip, Shape
from apps.capacity.errors import CatalogueError
from apps.capacity.models import Gpu, ListPrice, ModelShape, RentalPrice


def shapes() -> list[Shape]:
    """All models, by name."""
    return [to_shape(row) for row in ModelShape.objects.all()]


def shape_of(name: str) -> Shape:
    """The model of that name; CatalogueError where there is none."""
    row = ModelShape.objects.filter(name=name).first()
    if row is None:
        raise CatalogueError(f"There is no model {name!r} in the catalogue: add it in the admin.")
    return to_shape(row)


def chips() -> list[Chip]:
    """All GPUs, by name."""
    return [to_chip(row) for row in Gpu.objects.all()]


def chip_of(name: str) -> Chip:
    """The GPU of that name; CatalogueError where there is none."""
    row = Gpu.objects.filter(name=name).first()
    if row is None:
        raise CatalogueError(f"There is no GPU {name!r} in the catalogue: add it in the admin.")
    return to_chip(row)


def rentals(gpu: str = "") -> list[RentalPrice]:
    """The newest price of each provider, cheapest first; of one GPU or of all."""
    rows = RentalPrice.objects.select_related("gpu").order_by("gpu_id", "provider", "-as_of", "-id")
    if gpu:
        rows = rows.filter(gpu__name=gpu)
    newest = rows.distinct("gpu_id", "provider")
    return sorted(newest, key=lambda row: (row.gpu.name, row.low_micros_per_hour, row.provider))


def list_prices(*, offer: str = "", comparable_to: str = "") -> list[ListPrice]:
    """The newest price of each provider, model and kind of offer, by provider and model.

    `offer` is one of `ListPrice.Offer`, "" both; `comparable_to` a model of the catalogue, "" any.
    """
    rows = ListPrice.objects.order_by("provider", "model", "offer", "-as_of", "-id")
    rows = rows.distinct("provider", "model", "offer")
    return [
        row
        for row in rows
        if (not offer or row.offer == offer)
        and (not comparable_to or row.comparable_to == comparable_to)
    ]


def to_shape(row: ModelShape) -> Shape:
    """PlanInvalid says which figure cannot be."""
    return Shape(
        name=row.name,
        layers=row.layers,
        hidden=row.hidden,
        heads=row.heads,
        kv_heads=row.kv_heads,
        head_dim=row.head_dim,
        parameters=row.parameters,
        active_parameters=row.active_parameters,
        context_tokens=row.context_tokens,
        attention="latent" if row.attention == ModelShape.Attention.LATENT else "heads",
        latent_dim=row.latent_dim,
        rope_dim=row.rope_dim,
        experts=row.experts,
        experts_active=row.experts_active,
        window_tokens=row.window_tokens,
        window_layers=row.window_layers,
        vocabulary=row.vocabulary,
        tied_embeddings=row.tied_embeddings,
        source=f"{row.source}; read {row.read_on:%-d %B %Y}",
    )


def to_chip(row: Gpu) -> Chip:
    """PlanInvalid says which figure cannot be."""
    return Chip(
        name=row.name,
        memory_bytes=row.memory_bytes,
        bandwidth_gb_s=row.bandwidth_gb_s,
        bf16_tflops=row.bf16_tflops,
        fp8_tflops=row.fp8_tflops,
        int8_tops=row.int8_tops,
        source="; ".join(
            part for part in (row.source, row.note, f"read {row.read_on:%-d %B %Y}") if part
        ),
    )
