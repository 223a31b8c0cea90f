"""Measured curves of search: time and recall as a corpus grows. No vector is kept."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models


class SearchMeasurement(models.Model):
    """One run of `measure-search`."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    dimensions = models.PositiveIntegerField()
    # In words: which vectors were searched, and how those beyond the site's own were made.
    source = models.CharField(max_length=300)
    # {"cpu", "cores", "memory_bytes", "postgres", "pgvector", "load_before", "load_after"}
    machine = models.JSONField(default=dict)
    # `apps.capacity.retrieval_planning.points.Point` as JSON, in the order they were measured.
    points = models.JSONField(default=list)
    complete = models.BooleanField(default=False)  # all the sizes that were asked for
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [
            # The newest of these dimensions.
            models.Index(fields=["dimensions", "-started_at"], name="search_measurement_newest"),
        ]

    def __str__(self) -> str:
        return f"search at {self.dimensions} dimensions, {self.started_at:%Y-%m-%d}"
