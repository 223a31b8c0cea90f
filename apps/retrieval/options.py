"""How one question is searched: the tenant's profile, or what an evaluation asks for."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal, cast

from django.conf import settings

from apps.retrieval.models import SearchProfile

Storage = Literal["halfvec", "bit"]
LEG_CANDIDATES = 100  # of each leg; recall@50 of the fused ones was measured at .86 to 1.0
# HNSW: README of pgvector. ef_search is at least the candidates wanted, always.
# At 200, a tenant of 89,000 chunks was found .984 of by questions off its topic, at 400 .993.
EF_SEARCH = 400
M = 16
EF_CONSTRUCTION = 64


@dataclass(frozen=True)
class SearchFilter:
    """Which documents of the collections are searched: all that satisfy every part that is given.

    Weights of words stay those of the whole collections.
    """

    document_ids: tuple[uuid.UUID, ...] | None = None  # None: any
    kinds: tuple[str, ...] = ()  # MIME types
    tags: tuple[str, ...] = ()  # at least one of them
    added_from: date | None = None  # both inclusive, UTC
    added_to: date | None = None

    @property
    def narrows(self) -> bool:
        return self != SearchFilter()


@dataclass(frozen=True)
class SearchOptions:
    """The knobs of a search. Each stage can be switched off."""

    vectors: bool = True
    words: bool = True
    rerank: bool = True
    diversify: bool = True  # near-duplicates dropped, several documents preferred to one
    ef_search: int = EF_SEARCH
    leg_candidates: int = LEG_CANDIDATES
    rerank_candidates: int = 20
    storage: Storage = "halfvec"
    m: int = M
    ef_construction: int = EF_CONSTRUCTION
    exact: bool = False  # whatever the plan would be
    not_found_below: float = 0.42
    explain: bool = False  # keep what each stage found: `Retrieval.orders`


def options_for(tenant_id: uuid.UUID) -> SearchOptions:
    """The tenant's active profile; without one, what the settings say."""
    base = SearchOptions(
        rerank_candidates=settings.RERANK_CANDIDATES, not_found_below=settings.NOT_FOUND_BELOW
    )
    profile = SearchProfile.objects.filter(tenant_id=tenant_id, active=True).first()
    if profile is None:
        return base
    return replace(
        base,
        ef_search=profile.ef_search,
        leg_candidates=profile.leg_candidates,
        rerank_candidates=profile.rerank_candidates,
        storage=cast(Storage, profile.storage),
        m=profile.m,
        ef_construction=profile.ef_construction,
        not_found_below=profile.not_found_below,
    )
