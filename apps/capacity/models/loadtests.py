"""Load tests and the points that they measured. Figures only: no prompt and no answer is kept."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models


class LoadTest(models.Model):
    """One measurement of one target, under conditions that are written down with it."""

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Stopped"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=200)
    # `apps.capacity.load.types.Target`; no key is in it.
    target = models.JSONField(default=dict)
    # `Workload` of the same module.
    workload = models.JSONField(default=dict)
    # `apps.capacity.loadtests.plan.Plan`: mode, loads, repeats, promises, bounds, seed.
    plan = models.JSONField(default=dict)
    # What the figures hold for: {"model", "engine", "engine_version", "precision",
    # "kv_precision", "context_policy", "machine", "gpus", "gpu", "hour_micros", ...}.
    conditions = models.JSONField(default=dict)
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    fence = models.PositiveIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    error_code = models.CharField(max_length=60, blank=True)
    # What is under way: {"purpose", "load", "repeat", "done", "of", "since", ...}.
    progress = models.JSONField(default=dict)
    # `apps.capacity.loadtests.knee.Knee` and the self-test's figures, when they are there.
    result = models.JSONField(default=dict)
    rerun_of = models.ForeignKey("self", models.SET_NULL, null=True, related_name="reruns")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(state__in=["waiting", "running", "done", "failed", "cancelled"]),
                name="load_test_state",
            ),
        ]
        indexes: ClassVar = [
            # The list, newest first.
            models.Index(fields=["-created_at"], name="load_test_time"),
            # The next to work on.
            models.Index(
                fields=["created_at"],
                name="load_test_next",
                condition=models.Q(state__in=["waiting", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class LoadPoint(models.Model):
    """One load, held for a while, once."""

    class Purpose(models.TextChoices):
        SELF_TEST = "self_test", "Self-test against a server that answers at once"
        SWEEP = "sweep", "Sweep"
        KNEE = "knee", "Search for the knee"

    id = models.BigAutoField(primary_key=True)
    test = models.ForeignKey(LoadTest, models.CASCADE, related_name="points", db_index=False)
    number = models.PositiveIntegerField()  # in the order they were measured
    purpose = models.CharField(max_length=9, choices=Purpose)
    arrivals = models.CharField(max_length=8)  # poisson, constant, closed, trace
    load = models.FloatField()  # requests a second; closed: requests at a time
    repeat = models.PositiveSmallIntegerField(default=0)
    seed = models.BigIntegerField(default=0)
    # `apps.capacity.load.measures.Figures` as JSON.
    figures = models.JSONField(default=dict)
    # The requests' own times: JSON Lines, gzip. At most 8 MiB; empty where that was more.
    records = models.BinaryField(default=bytes)
    measured_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            # Read in order; and a point that two workers measured is kept once.
            models.UniqueConstraint(fields=["test", "number"], name="load_point_once"),
        ]

    def __str__(self) -> str:
        return f"{self.arrivals} {self.load:g} of {self.test_id}"
