"""What operations configure: upstreams, models over them, prices."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models


class GatewayUpstream(models.Model):
    """A model server beside those that the settings name. Its key is in the environment."""

    class Kind(models.TextChoices):
        TGI = "tgi", "Text Generation Inference"
        OPENAI = "openai", "OpenAI-compatible"
        TEI = "tei", "Text Embeddings Inference"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.SlugField(max_length=60, unique=True)  # stored in the ledger
    kind = models.CharField(max_length=10, choices=Kind)
    url = models.CharField(max_length=300)  # URLField refuses a host without dots
    # Name of the environment variable that holds the bearer key; a key is never in the database.
    key_variable = models.CharField(max_length=100, blank=True)
    max_concurrency = models.PositiveIntegerField(default=64)
    queue_timeout_s = models.FloatField(default=10.0)
    first_token_timeout_s = models.FloatField(default=60.0)
    silence_timeout_s = models.FloatField(default=60.0)
    deadline_s = models.FloatField(default=600.0)
    enabled = models.BooleanField(default=True)

    class Meta:
        verbose_name = "upstream"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(kind__in=["tgi", "openai", "tei"]), name="upstream_kind"
            ),
            models.CheckConstraint(
                condition=models.Q(max_concurrency__gte=1)
                & models.Q(queue_timeout_s__gte=0)
                & models.Q(first_token_timeout_s__gt=0)
                & models.Q(silence_timeout_s__gt=0)
                & models.Q(deadline_s__gt=0),
                name="upstream_bounds",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class GatewayModel(models.Model):
    """A model as callers name it."""

    class Kind(models.TextChoices):
        CHAT = "chat", "Chat"
        EMBEDDING = "embedding", "Embedding"
        RERANK = "rerank", "Reranking"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    alias = models.CharField(max_length=100, unique=True)
    label = models.CharField(max_length=200)
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.CHAT)
    context_tokens = models.PositiveIntegerField(default=8192)
    max_tokens = models.PositiveIntegerField(default=1024)
    passages = models.PositiveIntegerField(default=8)
    prompt = models.CharField(max_length=20, default="instruct")
    position = models.PositiveIntegerField(default=100)  # in lists; the first is the default
    enabled = models.BooleanField(default=True)

    class Meta:
        verbose_name = "model"
        ordering: ClassVar = ["position", "alias"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(kind__in=["chat", "embedding", "rerank"]), name="model_kind"
            ),
            models.CheckConstraint(
                condition=models.Q(prompt__in=["instruct", "extractive"]), name="model_prompt"
            ),
            models.CheckConstraint(
                condition=models.Q(max_tokens__gte=1)
                & models.Q(context_tokens__gt=models.F("max_tokens"))
                & models.Q(passages__gte=1),
                name="model_bounds",
            ),
        ]

    def __str__(self) -> str:
        return self.alias


class GatewayRoute(models.Model):
    """A way from a model to an upstream that serves it."""

    id = models.BigAutoField(primary_key=True)
    model = models.ForeignKey(GatewayModel, models.CASCADE, related_name="routes")
    upstream = models.ForeignKey(GatewayUpstream, models.CASCADE, related_name="routes")
    upstream_model = models.CharField(max_length=200, blank=True)
    weight = models.PositiveIntegerField(default=1)
    # What it is served with, in one's own words. A route is told from another by them: a change
    # of one is another configuration, which goes through a gate of its own.
    precision = models.CharField(max_length=60, blank=True, default="")
    engine = models.CharField(max_length=120, blank=True, default="")
    context_policy = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        verbose_name = "route"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["model", "upstream", "upstream_model"], name="route_once"
            ),
            models.CheckConstraint(condition=models.Q(weight__gte=1), name="route_weight"),
        ]

    def __str__(self) -> str:
        return f"{self.model} at {self.upstream}"


class RouteApproval(models.Model):
    """A configuration that an alias may be served with, and why. Added to, never changed.

    By alias, not by row: a model that is deleted and added again has what it had.
    """

    class How(models.TextChoices):
        FIRST = "first", "The first of its alias: nothing to compare with"
        MIGRATED = "migrated", "In use before there were gates"
        GATE = "gate", "Passed its gate"
        OVERRIDE = "override", "Overridden by a person"

    id = models.BigAutoField(primary_key=True)
    alias = models.CharField(max_length=100)
    fingerprint = models.CharField(max_length=64)
    serving = models.JSONField()  # what the fingerprint is of
    how = models.CharField(max_length=8, choices=How)
    gate_id = models.UUIDField(null=True)  # the answer run that it passed
    reason = models.CharField(max_length=500, blank=True)
    given_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    given_name = models.CharField(max_length=254, blank=True)  # kept when the account goes
    given_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "approval of a route"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["alias", "fingerprint"], name="approval_once"),
            # Of two first routes that are saved at once, one is the first.
            models.UniqueConstraint(
                fields=["alias"], condition=models.Q(how="first"), name="approval_one_first"
            ),
            models.CheckConstraint(
                condition=models.Q(how__in=["first", "migrated"])
                | models.Q(how="gate", gate_id__isnull=False)
                | (models.Q(how="override") & ~models.Q(reason="") & ~models.Q(given_name="")),
                name="approval_has_grounds",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.alias} {self.fingerprint[:12]} ({self.how})"


class Price(models.Model):
    """What tokens of a model at an upstream cost from a moment on.

    Either as a provider's price list says, in micros per million tokens, or for one's own
    machine: its price an hour, and the tokens a second it was measured to do. `upstream_model`
    empty: any model there.
    """

    id = models.BigAutoField(primary_key=True)
    upstream = models.CharField(max_length=60)
    upstream_model = models.CharField(max_length=200, blank=True)
    valid_from = models.DateTimeField()
    input_micros_per_mtok = models.BigIntegerField(default=0)
    cached_input_micros_per_mtok = models.BigIntegerField(null=True, blank=True)  # null: as input
    output_micros_per_mtok = models.BigIntegerField(default=0)
    hour_micros = models.BigIntegerField(null=True, blank=True)  # all GPUs of the upstream
    input_tokens_per_s = models.FloatField(null=True, blank=True)  # measured, at full load
    output_tokens_per_s = models.FloatField(null=True, blank=True)
    note = models.CharField(max_length=200, blank=True)  # where the figures are from
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["upstream", "upstream_model", "valid_from"], name="price_once"
            ),
            models.CheckConstraint(
                condition=models.Q(input_micros_per_mtok__gte=0)
                & models.Q(output_micros_per_mtok__gte=0)
                & (
                    models.Q(cached_input_micros_per_mtok__isnull=True)
                    | models.Q(cached_input_micros_per_mtok__gte=0)
                ),
                name="price_not_negative",
            ),
            # An hourly price says nothing without both throughputs. Nulls are named: a comparison
            # with one is neither true nor false, and a check takes that for true.
            models.CheckConstraint(
                condition=models.Q(
                    hour_micros__isnull=True,
                    input_tokens_per_s__isnull=True,
                    output_tokens_per_s__isnull=True,
                )
                | models.Q(
                    hour_micros__isnull=False,
                    input_tokens_per_s__isnull=False,
                    output_tokens_per_s__isnull=False,
                    hour_micros__gte=0,
                    input_tokens_per_s__gt=0,
                    output_tokens_per_s__gt=0,
                ),
                name="price_by_the_hour",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.upstream} {self.upstream_model} from {self.valid_from:%Y-%m-%d}"
