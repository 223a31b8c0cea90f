"""Runs as the pages show them: each question's right passage at the rank that a test says."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.documents.models import Chunk, Collection, Document, Page
from apps.evals.matching import Found, Labelled
from apps.evals.metrics import METRICS, STAGES, measure
from apps.evals.models import EvalRun, Label, LabelledQuestion, LabelledSet, RunQuestion
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.evals.labelled import add_question, make_set
from tests.retrieval.corpus import make_collection, make_document

Ranks = Mapping[str, int | None]  # of the right passage, by stage; None: not found
FILLERS = 12
_DONE = {"trigger": EvalRun.Trigger.NIGHTLY, "state": EvalRun.State.DONE, "done": 4, "total": 4}
FOUND: Ranks = dict.fromkeys(STAGES, 1)
PLACED_BADLY: Ranks = {**dict.fromkeys(STAGES, 3), "reranked": 12, "final": 12}
NEVER_FOUND: Ranks = dict.fromkeys(STAGES, None)


@dataclass(frozen=True)
class Shelf:
    """A set of three questions with an answer and one without, and the documents around it."""

    tenant: Tenant
    labelled_set: LabelledSet
    answer: Document
    fillers: Document
    questions: list[LabelledQuestion]
    unanswerable: LabelledQuestion


def make_shelf(tenant: Tenant, *, collection: Collection | None = None) -> Shelf:
    """Its documents are not indexed: pages of runs never search."""
    place = collection or make_collection(tenant)
    answer = make_document(place, ["The ferry leaves at nine <b>sharp</b>."], state="ready")
    fillers = make_document(place, [f"Filler {n}." for n in range(FILLERS)], state="ready")
    with tenant_scope(tenant.id):
        for document in (answer, fillers):
            Page.objects.create(
                tenant=tenant,
                document=document,
                number=1,
                text="The ferry leaves at nine <b>",
                char_start=0,
            )
    labelled_set = make_set(place, name="Ferries")
    texts = ("When does the ferry leave?", "Is the <i>ferry</i> late?", "Who runs the ferry?")
    return Shelf(
        tenant,
        labelled_set,
        answer,
        fillers,
        [
            add_question(labelled_set, text, (answer, 0, 20), slices=["boats", f"slice {number}"])
            for number, text in enumerate(texts)
        ],
        add_question(labelled_set, "What does the moon weigh?", unanswerable=True),
    )


def shown_run(
    shelf: Shelf,
    ranks: Sequence[Ranks] = (FOUND, PLACED_BADLY, NEVER_FOUND),
    *,
    configuration: Mapping[str, Any] | None = None,
    figures: Mapping[str, Any] | None = None,
    **fields: Any,
) -> EvalRun:
    """A finished run of the shelf's set; `ranks` go with its questions."""
    with tenant_scope(shelf.tenant.id):
        results = [
            _result(shelf, question, each)
            for question, each in zip(shelf.questions, ranks, strict=True)
        ]
        run = EvalRun.objects.create(
            tenant=shelf.tenant,
            labelled_set=shelf.labelled_set,
            configuration=_configuration() | dict(configuration or {}),
            figures=_figures(results) | dict(figures or {}),
            **{
                "trigger": EvalRun.Trigger.NIGHTLY,
                "state": EvalRun.State.DONE,
                "done": 4,
                "total": 4,
            }
            | fields,
        )
        for result in [*results, _unanswered(shelf)]:
            result.run = run
            result.save()
    return run


def _configuration() -> dict[str, Any]:
    return {
        "default": True,
        "options": {"ef_search": 200, "rerank": True},
        "stages": list(STAGES),
        "limit": 10,
        "index": {"id": str(uuid.UUID(int=1)), "model": "words"},
        "reranker": "late-interaction",
        "collection": {"documents": 2, "chunks": 13},
    }


def _figures(results: Sequence[RunQuestion]) -> dict[str, Any]:
    stages = {
        stage: {
            name: sum(each.metrics[stage][name] for each in results) / len(results)
            for name in METRICS
        }
        for stage in STAGES
    }
    final = stages["final"]
    return {
        "questions": len(results),
        "unanswerable": 1,
        "lost": 0,
        "stages": stages,
        "intervals": {name: [max(0, v - 0.1), min(1, v + 0.1)] for name, v in final.items()},
        "slices": {"boats": {"questions": len(results)} | final},
        "hops": {"search": {"count": 4, "p50_ms": 12.25, "p95_ms": 1500.0, "skipped": 0}},
        "rows": {"min": 9, "mean": 9.75, "short": 1},
        "missed": {"first_stage": 1, "placed_badly": 1, "found": 1},
        "refusals": [[0.2, 0.0, 0.25], [0.42, 0.05, 0.5], [0.6, 0.1, 0.95], [0.9, 0.9, 1.0]],
        "degraded": {},
    }


def _result(shelf: Shelf, question: LabelledQuestion, ranks: Ranks) -> RunQuestion:
    labels = [
        Labelled(each.id, each.document_id, each.char_start, each.char_end, each.grade)
        for each in Label.objects.filter(tenant=shelf.tenant, question=question)
    ]
    rankings = {stage: _ranking(shelf, ranks[stage]) for stage in STAGES}
    return RunQuestion(
        tenant=shelf.tenant,
        question=question,
        metrics=measure(rankings, labels),
        ranked={stage: _rows(shelf, ranked) for stage, ranked in rankings.items()},
        relevance=0.7,
        rows=10,
        hops={"search": 12.0},
        fingerprint=str(question.id)[:16],
    )


def _unanswered(shelf: Shelf) -> RunQuestion:
    ranked = {"final": _rows(shelf, _ranking(shelf, None))}
    return RunQuestion(
        tenant=shelf.tenant, question=shelf.unanswerable, ranked=ranked, relevance=0.3, rows=9
    )


def _ranking(shelf: Shelf, rank: int | None) -> list[Found]:
    chunks = Chunk.objects.filter(tenant=shelf.tenant, document=shelf.fillers).order_by("ordinal")
    order = list(chunks)
    if rank is not None:
        order.insert(rank - 1, Chunk.objects.get(tenant=shelf.tenant, document=shelf.answer))
    return [
        Found(each.id, each.document_id, each.char_start, each.char_end, 1 / place)
        for place, each in enumerate(order, start=1)
    ]


def _rows(shelf: Shelf, ranked: Sequence[Found]) -> list[list[Any]]:
    return [
        [
            *(str(each.chunk_id), str(each.document_id), each.start, each.end, each.score),
            int(each.document_id == shelf.answer.id),
        ]
        for each in ranked
    ]
