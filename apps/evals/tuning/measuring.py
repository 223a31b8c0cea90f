"""Measuring single searches: recall against an exact search of the same question, and time.

Every question is searched by every setting, one after the other, in an order drawn for each
question: what else the machine does, what a first look at a vector costs, and what the search
before leaves in the caches, falls on all of them alike. (In a fixed order, the setting after exact
search was measured slower than the next higher ef_search.)
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from django.conf import settings
from django.db import transaction

from apps.documents.models import Collection
from apps.evals.tuning.probes import Probe
from apps.inference.types import Vectors
from apps.retrieval import vectors
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.options import SearchOptions, options_for
from apps.retrieval.plans import SearchPlan, plan_search
from apps.retrieval.recall import recall_at
from apps.retrieval.selectors import active_index
from apps.tenants.scope import tenant_scope

# Searches of each setting that nobody times, before the first one that is.
WARM_UP = 3


@dataclass(frozen=True)
class Ground:
    """What is searched, and how it is searched today."""

    index: EmbeddingIndex
    in_force: SearchOptions
    collection_ids: Sequence[uuid.UUID]
    rows: int  # passages that a search of all collections could return
    plan: SearchPlan  # of such a search today

    @property
    def exactly(self) -> bool:
        """Whether the tenant is too small for an HNSW index."""
        return self.rows <= settings.HNSW_ABOVE_CHUNKS


@dataclass(frozen=True)
class Answer:
    """What one search gave: other passages than the question itself, nearest first; its time."""

    found: Mapping[uuid.UUID, float]  # passages with their cosines
    ms: float


def survey(tenant_id: uuid.UUID) -> Ground | None:
    """The tenant's active index and all its collections; None where nothing is indexed."""
    index = active_index(tenant_id)
    if index is None:
        return None
    with tenant_scope(tenant_id):
        ids = list(Collection.objects.filter(tenant_id=tenant_id).values_list("id", flat=True))
    in_force = options_for(tenant_id)
    plan = plan_search(index=index, options=in_force, collection_ids=ids)
    return Ground(index, in_force, ids, plan.rows, plan) if plan.rows else None


def warm_up(ground: Ground, plans: Sequence[SearchPlan], probes: Sequence[Vectors]) -> None:
    for vector in probes[:WARM_UP]:
        ask_all(ground, plans, Probe(vector=vector), vector, turn=0)


def ask_all(
    ground: Ground, plans: Sequence[SearchPlan], probe: Probe, vector: Vectors, *, turn: int
) -> list[Answer]:
    """One question by every plan, in the order of `turn`; answers in the plans' order."""
    answers: dict[int, Answer] = {}
    with transaction.atomic():
        for place in order_of(turn, len(plans)):
            start = perf_counter()
            found = vectors.search(
                index=ground.index,
                collection_ids=ground.collection_ids,
                question=vector,
                limit=ground.in_force.leg_candidates,
                plan=plans[place],
            )
            ms = (perf_counter() - start) * 1000
            if probe.passage_id is not None:  # it is not among those it is to find
                found.pop(probe.passage_id, None)
            answers[place] = Answer(found, ms)
    return [answers[place] for place in range(len(plans))]


def order_of(turn: int, count: int) -> list[int]:
    """Places 0 to `count`, shuffled, the same for the same turn."""
    return random.Random(turn).sample(range(count), count)  # noqa: S311


def sample_of(answer: Answer, exact: Answer, *, k: int) -> list[float]:
    """A row of `vector_figures`: (recall at k, recall at 10, rows, rows there are, ms)."""
    return [
        round(_recall(k, answer, exact), 4),
        round(_recall(10, answer, exact), 4),
        len(answer.found),
        len(exact.found),
        round(answer.ms, 3),
    ]


def _recall(k: int, answer: Answer, exact: Answer) -> float:
    """Nothing is missed where there is nothing to be found."""
    recall = recall_at(k, answer.found, exact.found)
    return 1.0 if recall is None else recall
