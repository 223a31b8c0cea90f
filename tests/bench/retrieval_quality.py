"""Quality and speed of retrieval on a labelled collection, through the real code.

    python -m tests.bench.retrieval_quality scifact --questions 100

Prints nDCG@10 and recall of each leg, of their fusion and of the reranked order, the time of each
hop, and how many questions NOT_FOUND_BELOW would refuse. PostgreSQL, Redis and the encoder are
started for the duration; with TEI_URL set, that server is used.
"""

from __future__ import annotations

import argparse
import os
import random
from collections import defaultdict
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tests import parts

if TYPE_CHECKING:
    from tests.retrieval.beir import Question


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", help="folder under shared/data/retrieval")
    parser.add_argument("--questions", type=int, default=100, help="questions sampled")
    parser.add_argument("--off-topic", default="", help="another folder, whose questions to refuse")
    parser.add_argument(
        "--reported-half", action="store_true", help="no question that relevance was fitted on"
    )
    arguments = parser.parse_args()
    encoder = _start_encoder()
    try:
        _set_up()
        _measure(arguments)
    finally:
        from django.db import connections

        connections["default"].close()
        connections["default"].close_pool()  # type: ignore[attr-defined]
        if encoder is not None:
            encoder.terminate()
        parts.pytest_unconfigure()


def _start_encoder() -> Any:
    if os.environ.get("TEI_URL"):
        return None
    from ragsite.stack.catalogue import plan_stack
    from ragsite.stack.part import start_and_wait
    from ragsite.stack.state import StateDir

    plan = plan_stack(StateDir(parts.state_dir), os.environ, ["encoder"])
    os.environ.update(plan.environment)
    return start_and_wait(plan.parts[0])


def _set_up() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragsite.settings")
    django.setup()
    from django.core.management import call_command

    call_command("prepare_database", verbosity=0)
    call_command("migrate", database="owner", verbosity=0)


def _measure(arguments: argparse.Namespace) -> None:
    from apps.tenants.models import Tenant
    from tests.retrieval import beir
    from tests.retrieval.corpus import make_collection

    labelled = beir.load(arguments.name)
    tenant = Tenant.objects.create(slug="bench", name="Bench")
    collection = make_collection(tenant)
    document, names = beir.add_passages(collection, labelled.passages)
    _index(document, len(names))
    chance = random.Random(1)  # noqa: S311 - the same sample every time
    kept = [each for each in labelled.questions if each.is_reported or not arguments.reported_half]
    answerable = [question for question in kept if question.relevant]
    questions = _sample(chance, answerable, arguments.questions)
    _print_table(_run(collection, names, questions))
    unanswerable = [question for question in kept if not question.relevant]
    if arguments.off_topic:
        unanswerable = beir.load(arguments.off_topic).answerable
    others = _sample(chance, unanswerable, arguments.questions)
    _print_refusals(_relevances(collection, questions), _relevances(collection, others))


def _index(document: Any, chunks: int) -> None:
    from apps.retrieval.indexing import index_next
    from apps.telemetry.models import Span

    start = perf_counter()
    index_next()
    took = perf_counter() - start
    figures = Span.objects.get(trace_id=document.id, hop="index").attributes
    print(
        f"indexed {chunks} passages in {took:.1f} s ({chunks / took:.0f} a second): "
        f"embed {figures['embed_ms'] / 1000:.1f} s, write {figures['write_ms'] / 1000:.1f} s"
    )


def _run(collection: Any, names: Any, questions: Sequence[Question]) -> dict[str, list[float]]:
    """Figures by name, one a question."""
    from tests.retrieval.beir import ndcg, recall

    figures: dict[str, list[float]] = defaultdict(list)
    for question in questions:
        for stage, chunks in _orders(collection, question.text, figures).items():
            found = [names[chunk] for chunk in chunks]
            figures[f"nDCG@10 {stage}"].append(ndcg(found, question.relevant))
            figures[f"recall@50 {stage}"].append(recall(found, question.relevant, 50))
    return figures


def _orders(collection: Any, text: str, figures: dict[str, list[float]]) -> dict[str, list[Any]]:
    """Chunk ids in the order of each stage of the pipeline."""
    from dataclasses import replace

    from apps.retrieval.options import options_for
    from apps.retrieval.pipeline import retrieve
    from apps.telemetry.hops import Trace

    trace = Trace(collection.tenant_id, "answer")
    found = retrieve(
        tenant_id=collection.tenant_id,
        collection_ids=[collection.id],
        question=text,
        trace=trace,
        limit=10,
        options=replace(options_for(collection.tenant_id), explain=True),
    )
    for hop in trace.hops:
        figures[f"ms hop {hop.name}"].append(hop.work_ms)
        for name in ("moved_in", "near_duplicates", "moved_for_diversity"):
            if name in hop.attributes:
                figures[f"mean {name}"].append(float(hop.attributes[name]))
    return {stage: [chunk for chunk, _ in order] for stage, order in found.orders.items()}


def _relevances(collection: Any, questions: Sequence[Question]) -> list[float]:
    """How relevant each question's best passage is, 0 to 1."""
    from apps.retrieval.pipeline import retrieve
    from apps.telemetry.hops import Trace

    best = []
    for question in questions:
        found = retrieve(
            tenant_id=collection.tenant_id,
            question=question.text,
            collection_ids=[collection.id],
            trace=Trace(collection.tenant_id, "answer"),
        )
        best.append(max((passage.relevance for passage in found.passages), default=0.0))
    return best


def _print_refusals(answerable: Sequence[float], others: Sequence[float]) -> None:
    """What each limit would refuse: the one in force is marked."""
    from django.conf import settings

    from apps.retrieval.relevance import refusal_curve

    print(f"refused     of {len(answerable)} it answers   of {len(others)} it does not")
    for limit, good, bad in refusal_curve(answerable, others):
        if 0.2 <= limit <= 0.8:
            mark = "  <- in force" if limit == settings.NOT_FOUND_BELOW else ""
            print(f"below {limit:.2f}  {good:>16.1%}   {bad:>17.1%}{mark}")


def _sample(chance: random.Random, questions: Sequence[Question], count: int) -> list[Question]:
    return chance.sample(list(questions), min(count, len(questions)))


def _print_table(figures: dict[str, list[float]]) -> None:
    for name, values in sorted(figures.items()):
        if name.startswith("ms "):
            ordered = sorted(values)
            p50, p95 = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.95))
            print(f"{name[3:]:22} p50 {p50:7.1f} ms   p95 {p95:7.1f} ms")
        else:
            print(f"{name:22} {sum(values) / len(values):.3f}")


if __name__ == "__main__":
    main()
