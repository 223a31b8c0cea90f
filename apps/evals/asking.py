"""One labelled question through the product's own search, and what came of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.documents.models import Chunk
from apps.evals.matching import Found, grade_of
from apps.evals.metrics import measure
from apps.evals.models import RunQuestion
from apps.evals.questions import Asked
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.options import SearchOptions
from apps.retrieval.pipeline import retrieve
from apps.retrieval.types import Retrieval
from apps.telemetry.hops import Trace
from apps.telemetry.services import account_for
from apps.tenants.scope import tenant_scope

# Of each stage, what is kept to be read later; metrics look at all of it. Five stages of twenty
# take 14 KB a question.
KEPT = 20
Order = Sequence[tuple[uuid.UUID, float]]


@dataclass(frozen=True)
class Plan:
    """How a run searches."""

    run_id: uuid.UUID
    tenant_id: uuid.UUID
    collection_id: uuid.UUID
    options: SearchOptions  # with `explain`
    index: EmbeddingIndex | None
    stages: Sequence[str]
    limit: int


def ask(plan: Plan, asked: Asked) -> RunQuestion:
    """Search for the question and measure each stage. Not saved; its hops are of no trace."""
    trace = Trace(
        plan.tenant_id, "answer", source="evaluation", collection_ids=(plan.collection_id,)
    )
    retrieval = retrieve(
        tenant_id=plan.tenant_id,
        question=asked.text,
        collection_ids=[plan.collection_id],
        trace=trace,
        limit=plan.limit,
        options=plan.options,
        index=plan.index,
    )
    account_for(trace)
    rankings = _rankings(plan, retrieval)
    return RunQuestion(
        tenant_id=plan.tenant_id,
        run_id=plan.run_id,
        question_id=asked.id,
        metrics=measure(rankings, asked.labels) if asked.is_answerable else {},
        ranked={stage: _rows(ranked, asked) for stage, ranked in rankings.items()},
        relevance=max((passage.relevance for passage in retrieval.passages), default=0.0),
        rows=len(retrieval.passages),
        hops={hop.name: hop.work_ms for hop in trace.hops if hop.status != "skipped"},
        notices=[notice.code for notice in retrieval.notices],
        fingerprint=asked.fingerprint,
    )


def _rankings(plan: Plan, retrieval: Retrieval) -> dict[str, list[Found]]:
    orders = _orders(plan, retrieval)
    places = _places(plan.tenant_id, {chunk for order in orders.values() for chunk, _ in order})
    return {
        stage: [
            Found(chunk, *places[chunk], score)
            for chunk, score in orders.get(stage, ())
            if chunk in places  # not deleted meanwhile
        ]
        for stage in plan.stages
    }


def _orders(plan: Plan, retrieval: Retrieval) -> Mapping[str, Order]:
    """Each stage's order; that of the last goes on with what was ranked but not asked for.

    A leg's order may also hold what the other leg found: only its own candidates are its own.
    """
    own = plan.options.leg_candidates
    orders = dict(retrieval.orders)
    for leg in ("bm25", "vectors"):
        orders[leg] = orders.get(leg, ())[:own]
    given: Order = [(passage.chunk_id, passage.score) for passage in retrieval.passages]
    shown = {chunk for chunk, _ in given}
    rest = orders.get("final") or orders.get("reranked") or orders.get("fused", ())
    orders["final"] = [*given, *(pair for pair in rest if pair[0] not in shown)]
    return orders


def _places(
    tenant_id: uuid.UUID, chunk_ids: set[uuid.UUID]
) -> dict[uuid.UUID, tuple[uuid.UUID, int, int]]:
    with tenant_scope(tenant_id):
        chunks = Chunk.objects.filter(tenant_id=tenant_id, id__in=chunk_ids)
        rows = chunks.values_list("id", "document_id", "char_start", "char_end")
        return {row[0]: row[1:] for row in rows}


def _rows(ranked: Sequence[Found], asked: Asked) -> list[list[object]]:
    return [
        [
            *(str(chunk.chunk_id), str(chunk.document_id), chunk.start, chunk.end),
            *(round(chunk.score, 5), grade_of(chunk, asked.labels)),
        ]
        for chunk in ranked[:KEPT]
    ]
