"""Put the first catalogue into the tables, leaving alone what is there.

Its prices are in US dollars. A site that counts in another currency begins without them: the
catalogue, like the ledger, has one currency, and converting would need a rate and its date.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import transaction

from apps.capacity.catalogue.first import GPUS, LIST_PRICES, MODELS, RENTALS

PRICED_IN = "USD"


def seed_catalogue(
    model: Callable[[str], Any] | None = None, *, using: str = "default"
) -> dict[str, int]:
    """Rows added, by table. A row that is there already, changed or not, stays as it is.

    `model` gives a model by its name: a migration's own. `using` is the database.
    """
    of = model or (lambda name: apps.get_model("capacity", name))
    with transaction.atomic(using=using):
        added = {
            "ModelShape": sum(_add(of("ModelShape"), using, row, "name") for row in MODELS),
            "Gpu": sum(_add(of("Gpu"), using, row, "name") for row in GPUS),
        }
        if settings.CURRENCY != PRICED_IN:
            return added
        gpus = of("Gpu").objects.using(using).in_bulk(field_name="name")
        rentals = [{**row, "gpu": gpus[row["gpu"]]} for row in RENTALS]
        added["RentalPrice"] = sum(
            _add(of("RentalPrice"), using, row, "gpu", "provider", "as_of") for row in rentals
        )
        added["ListPrice"] = sum(
            _add(of("ListPrice"), using, row, "provider", "model", "offer", "as_of")
            for row in LIST_PRICES
        )
    return added


def _add(model: Any, using: str, row: dict[str, Any], *unique: str) -> bool:
    key = {name: row[name] for name in unique}
    rest = {name: value for name, value in row.items() if name not in unique}
    return bool(model.objects.using(using).get_or_create(**key, defaults=rest)[1])
