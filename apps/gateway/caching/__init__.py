"""Answers that are given again: exactly the same question, or at will one that means the same."""

from __future__ import annotations

from apps.gateway.caching.serving import through_cache
from apps.gateway.caching.store import forget_collection
from apps.gateway.caching.types import Cacheable, CacheUse, Codec, Made

__all__ = ["CacheUse", "Cacheable", "Codec", "Made", "forget_collection", "through_cache"]
