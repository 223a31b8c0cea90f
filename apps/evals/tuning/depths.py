"""Whole searches of labelled questions, over how many candidates they work with."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from apps.evals.asking import Plan, ask
from apps.evals.models import LabelledQuestion
from apps.evals.questions import Asked, read_questions
from apps.evals.tuning.grid import Depth
from apps.evals.tuning.measuring import Ground, order_of
from apps.tenants.scope import tenant_scope

# nDCG@10 of so many questions is known to about ±.07; each is searched once by every depth.
QUESTIONS_MAX = 100
LIMIT = 10  # passages asked for, as runs do
SEARCHED_HOPS = ("embed", "search", "rerank")


@dataclass(frozen=True)
class Searched:
    """A labelled question, and the collection of its set."""

    asked: Asked
    collection_id: uuid.UUID


def labelled_questions(tenant_id: uuid.UUID, *, seed: uuid.UUID) -> list[Searched]:
    """Those with something to be found, the same ones in the same order for one seed."""
    with tenant_scope(tenant_id):
        relevant = LabelledQuestion.objects.filter(tenant_id=tenant_id, labels__grade__gt=0)
        collections: Mapping[uuid.UUID, uuid.UUID] = dict(
            relevant.distinct().values_list("id", "labelled_set__collection_id")
        )
        drawn = sorted(collections, key=lambda each: uuid.uuid5(seed, str(each)))
        read = read_questions(tenant_id, drawn[:QUESTIONS_MAX])
    return [Searched(each, collections[each.id]) for each in read if each.is_answerable]


def ask_depths(
    ground: Ground, depths: Sequence[Depth], question: Searched, *, turn: int
) -> list[dict[str, float]]:
    """One question by every depth, in the order of `turn`; samples in the depths' order."""
    order = order_of(turn, len(depths))
    samples = {place: _ask(ground, depths[place], question) for place in order}
    return [samples[place] for place in range(len(depths))]


def _ask(ground: Ground, depth: Depth, question: Searched) -> dict[str, float]:
    plan = Plan(
        run_id=uuid.UUID(int=0),  # what it found is not kept
        tenant_id=ground.index.tenant_id,
        collection_id=question.collection_id,
        options=replace(
            ground.in_force,
            leg_candidates=depth.leg_candidates,
            rerank_candidates=depth.rerank_candidates,
            ef_search=max(ground.in_force.ef_search, depth.leg_candidates),
            explain=True,
        ),
        index=ground.index,
        stages=("final",),
        limit=LIMIT,
    )
    result = ask(plan, question.asked)
    final = result.metrics.get("final", {})
    return {
        "ndcg_10": round(final.get("ndcg@10", 0.0), 4),
        "recall_10": round(final.get("recall@10", 0.0), 4),
        "rerank_ms": round(result.hops.get("rerank", 0.0), 3),
        "ms": round(sum(result.hops.get(hop, 0.0) for hop in SEARCHED_HOPS), 3),
        "degraded": float(bool(result.notices)),
    }
