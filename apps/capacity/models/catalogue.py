"""What is known of models, GPUs and prices: a figure, where it is from, and when it was read.

Of no tenant: operations look after it. Rows may be added and changed; a plan says which figures it
was made with.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class ModelShape(models.Model):
    """What memory and speed follow from: the figures of a checkpoint's `config.json`."""

    class Attention(models.TextChoices):
        HEADS = "heads", "Heads (MHA, MQA or GQA)"
        LATENT = "latent", "Latent (MLA)"

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=200, unique=True)  # as its publisher calls it
    attention = models.CharField(max_length=6, choices=Attention, default=Attention.HEADS)
    layers = models.PositiveIntegerField()
    hidden = models.PositiveIntegerField()
    heads = models.PositiveIntegerField()
    kv_heads = models.PositiveIntegerField()  # of latent attention: as heads
    head_dim = models.PositiveIntegerField()
    latent_dim = models.PositiveIntegerField(default=0)  # latent attention only
    rope_dim = models.PositiveIntegerField(default=0)  # latent attention only
    parameters = models.BigIntegerField()
    # Read for one token: fewer than `parameters` in a mixture of experts.
    active_parameters = models.BigIntegerField()
    experts = models.PositiveIntegerField(default=0)  # routed, of a layer; 0: dense
    experts_active = models.PositiveIntegerField(default=0)  # routed, for a token
    context_tokens = models.PositiveIntegerField()
    # Layers that keep no more than `window_tokens` of the context.
    window_tokens = models.PositiveIntegerField(default=0)
    window_layers = models.PositiveIntegerField(default=0)
    # Rows of the embedding and of the output head, which stay at 16 bits. 0: not known.
    vocabulary = models.PositiveIntegerField(default=0)
    tied_embeddings = models.BooleanField(default=False)  # one table for both
    source = models.CharField(max_length=300)
    read_on = models.DateField()
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(attention="heads", latent_dim=0, rope_dim=0)
                | models.Q(attention="latent", latent_dim__gte=1),
                name="shape_attention",
            ),
            models.CheckConstraint(
                condition=models.Q(layers__gte=1)
                & models.Q(hidden__gte=1)
                & models.Q(heads__gte=1)
                & models.Q(kv_heads__gte=1)
                & models.Q(kv_heads__lte=models.F("heads"))
                & models.Q(head_dim__gte=1)
                & models.Q(context_tokens__gte=1)
                & models.Q(window_layers__lte=models.F("layers"))
                & models.Q(active_parameters__gte=1)
                & models.Q(active_parameters__lte=models.F("parameters"))
                & models.Q(experts_active__lte=models.F("experts")),
                name="shape_bounds",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Gpu(models.Model):
    """An accelerator, with its dense throughput: tables often print the sparse one, twice that."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=100, unique=True)
    memory_bytes = models.BigIntegerField()
    bandwidth_gb_s = models.FloatField()  # 1e9 bytes a second
    bf16_tflops = models.FloatField()
    fp8_tflops = models.FloatField(null=True, blank=True)  # null: it has none
    int8_tops = models.FloatField(null=True, blank=True)
    source = models.CharField(max_length=300)
    read_on = models.DateField()
    note = models.CharField(max_length=300, blank=True)  # what is uncertain

    class Meta:
        ordering: ClassVar = ["name"]
        verbose_name = "GPU"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(memory_bytes__gt=0)
                & models.Q(bandwidth_gb_s__gt=0)
                & models.Q(bf16_tflops__gt=0)
                & (models.Q(fp8_tflops__isnull=True) | models.Q(fp8_tflops__gt=0))
                & (models.Q(int8_tops__isnull=True) | models.Q(int8_tops__gt=0)),
                name="gpu_bounds",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class RentalPrice(models.Model):
    """What an hour of one GPU costs at a kind of provider: a range, as lists give it."""

    id = models.BigAutoField(primary_key=True)
    gpu = models.ForeignKey(Gpu, models.CASCADE, related_name="rentals")
    provider = models.CharField(max_length=100)  # or a kind of provider
    low_micros_per_hour = models.BigIntegerField()
    high_micros_per_hour = models.BigIntegerField()
    source = models.CharField(max_length=300)
    as_of = models.DateField()
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering: ClassVar = ["gpu__name", "low_micros_per_hour", "provider"]
        verbose_name = "price of a GPU's hour"
        verbose_name_plural = "prices of a GPU's hour"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["gpu", "provider", "as_of"], name="rental_once"),
            models.CheckConstraint(
                condition=models.Q(low_micros_per_hour__gte=0)
                & models.Q(high_micros_per_hour__gte=models.F("low_micros_per_hour")),
                name="rental_bounds",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.gpu} at {self.provider}, {self.as_of}"


class ListPrice(models.Model):
    """What a million tokens cost where somebody else runs the model."""

    class Offer(models.TextChoices):
        API = "api", "Managed API"  # paid by the token, shared with others
        ENDPOINT = "endpoint", "Managed endpoint"  # paid by the hour, one's own instances

    id = models.BigAutoField(primary_key=True)
    offer = models.CharField(max_length=8, choices=Offer, default=Offer.API)
    provider = models.CharField(max_length=100)
    model = models.CharField(max_length=200)
    # A model of this catalogue that it is comparable with; empty: none.
    comparable_to = models.CharField(max_length=200, blank=True)
    input_micros_per_mtok = models.BigIntegerField(default=0)
    cached_input_micros_per_mtok = models.BigIntegerField(null=True, blank=True)  # null: as input
    output_micros_per_mtok = models.BigIntegerField(default=0)
    hour_micros = models.BigIntegerField(null=True, blank=True)  # endpoints only
    source = models.CharField(max_length=300)
    as_of = models.DateField()
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering: ClassVar = ["provider", "model", "-as_of"]
        verbose_name = "list price"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["provider", "model", "offer", "as_of"], name="list_price_once"
            ),
            models.CheckConstraint(
                condition=models.Q(offer="api", hour_micros__isnull=True)
                | models.Q(offer="endpoint", hour_micros__isnull=False, hour_micros__gte=0),
                name="list_price_offer",
            ),
            models.CheckConstraint(
                condition=models.Q(input_micros_per_mtok__gte=0)
                & models.Q(output_micros_per_mtok__gte=0)
                & (
                    models.Q(cached_input_micros_per_mtok__isnull=True)
                    | models.Q(cached_input_micros_per_mtok__gte=0)
                ),
                name="list_price_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model} at {self.provider}, {self.as_of}"
