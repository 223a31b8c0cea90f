"""Add to the catalogue."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date

from django.db import transaction

from apps.capacity.catalogue.checkpoint import Checkpoint
from apps.capacity.errors import CatalogueError
from apps.capacity.models import ModelShape
from apps.telemetry.services import record_audit

LONGEST_NOTE = 300  # characters, of the column


@transaction.atomic
def add_checkpoint(
    *, checkpoint: Checkpoint, source: str, read_on: date, actor_id: int | None
) -> ModelShape:
    """Keep a model as it was read; CatalogueError where there is one of that name."""
    fields = asdict(checkpoint.shape)
    fields |= {"source": source, "read_on": read_on}
    fields["note"] = " ".join(checkpoint.notes)[:LONGEST_NOTE]
    row, is_new = ModelShape.objects.get_or_create(name=fields.pop("name"), defaults=fields)
    if not is_new:
        raise CatalogueError(f"There is a model {row.name!r} already: give another name.")
    record_audit(action="model_shape.added", tenant_id=None, actor_id=actor_id, subject_id=row.pk)
    return row
