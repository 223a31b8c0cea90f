"""Answers that are given again: exactly the same question, or at will one that means the same."""

from __future__ import annotations

from apps.gateway.caching.serving import Cacheable, CacheUse, Codec, Made, through_cache

__all__ = ["CacheUse", "Cacheable", "Codec", "Made", "through_cache"]
