"""The tables of capacity: what is known, and what was measured here."""

from __future__ import annotations

from apps.capacity.models.catalogue import Gpu, ListPrice, ModelShape, RentalPrice
from apps.capacity.models.loadtests import LoadPoint, LoadTest
from apps.capacity.models.retrieval import SearchMeasurement

__all__ = [
    "Gpu",
    "ListPrice",
    "LoadPoint",
    "LoadTest",
    "ModelShape",
    "RentalPrice",
    "SearchMeasurement",
]
