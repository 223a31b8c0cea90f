"""Gates before another embedding index is put in force: is as much found as before?

Two checks of a build, registered with retrieval when the site starts. Labelled sets decide: each
is run in the old index and in the new one. Real questions, searched in both off their path, say
how much the answers will differ; that is a figure to look at and refuses nothing.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.chat.models import Message, MessageRole
from apps.documents.models import Collection
from apps.evals.claims import UNFINISHED
from apps.evals.comparing import Comparison, compare
from apps.evals.errors import NothingToMeasure
from apps.evals.models import EvalRun, LabelledSet
from apps.evals.running import start_run
from apps.retrieval.builds import gates
from apps.retrieval.builds.gates import GateResult
from apps.retrieval.models import EmbeddingIndex, IndexBuild
from apps.retrieval.pipeline import retrieve
from apps.telemetry.hops import Trace
from apps.telemetry.services import account_for
from apps.tenants.scope import tenant_scope

LABELLED, SHADOW = "labelled_sets", "real_questions"
# How well passages are placed, and whether they are found at all.
JUDGED_BY = ("ndcg@10", "recall@20")
SAMPLE = 300  # questions of a set, the same ones in both indexes
# Below so many questions, chance alone moves the mean by more than a change of model does.
FEW = 30
SHADOW_QUESTIONS = 25
SHADOW_S = 20.0  # of a worker's time
TOP = 10


def register() -> None:
    """Have retrieval ask both checks of every build."""
    gates.register(LABELLED, check_labelled_sets, title="As much is found on labelled sets")
    gates.register(SHADOW, check_real_questions, title="Recent questions in both")


def check_labelled_sets(build: IndexBuild) -> GateResult:
    """No labelled set on which less is found than before, by more than its interval."""
    known = gates.last_result(build, LABELLED).get("figures", {})
    pairs: list[list[str]] = known.get("runs") or _start_runs(build)
    if not pairs:
        words = "There is no labelled set to compare on. Make one from questions you know."
        return GateResult(LABELLED, False, words)
    runs = _read_runs(build.tenant_id, pairs)
    figures: dict[str, Any] = {"runs": pairs}
    under_way = [run for pair in runs for run in pair if run.state in UNFINISHED]
    if under_way:
        done, total = (
            sum(getattr(run, name) for pair in runs for run in pair) for name in ("done", "total")
        )
        words = f"{done} of {total} questions have been asked in the two indexes."
        return GateResult(LABELLED, False, words, pending=True, figures=figures)
    sound = [pair for pair in runs if all(map(_is_sound, pair))]
    if not sound:
        words = "The runs could not be measured: a model server was away. Compare again."
        return GateResult(LABELLED, False, words, figures=figures)
    return _judge([compare(*pair) for pair in sound], figures, unsound=len(pairs) - len(sound))


def check_real_questions(build: IndexBuild) -> GateResult:
    """How many of the ten best passages are the same for what people have asked lately."""
    questions = _recent_questions(build.tenant_id)
    shared: list[float] = []
    until = time.monotonic() + SHADOW_S
    with tenant_scope(build.tenant_id):
        collections = Collection.objects.filter(tenant_id=build.tenant_id)
        collection_ids = list(collections.values_list("id", flat=True))
    for question in questions:
        if build.source is None or build.target is None or time.monotonic() > until:
            break
        both = [
            _top(build.tenant_id, index, question, collection_ids)
            for index in (build.source, build.target)
        ]
        if both[0]:
            shared.append(len(both[0] & both[1]) / len(both[0]))
    if not shared:
        return GateResult(SHADOW, True, "Nobody has asked anything yet.", figures={"questions": 0})
    mean = sum(shared) / len(shared)
    words = (
        f"Of the {TOP} best passages for {len(shared)} recent questions, {mean:.0%} stay the same."
    )
    figures = {"questions": len(shared), f"overlap@{TOP}": round(mean, 4)}
    return GateResult(SHADOW, True, words, figures=figures)


@dataclass(frozen=True)
class _Fall:
    metric: str
    before: float
    after: float

    def __str__(self) -> str:
        return f"{self.metric} falls from {self.before:.3f} to {self.after:.3f}"


def _judge(found: Sequence[Comparison], figures: dict[str, Any], *, unsound: int) -> GateResult:
    falls, compared, questions = [], [], 0
    for comparison in found:
        questions += comparison.questions
        of_set: dict[str, list[float]] = {}
        for metric in JUDGED_BY:
            difference = comparison.difference(metric)
            if difference is None:
                continue
            numbers = (difference.before, difference.after, difference.low, difference.high)
            of_set[metric] = [round(number, 4) for number in numbers]
            if difference.fell:
                falls.append(_Fall(metric, difference.before, difference.after))
        compared.append(of_set)
    figures |= {"questions": questions, "compared": compared, "sets": len(found)}
    words = (
        f"{'; '.join(map(str, falls)) or 'As much is found as before'}, on {questions} questions."
    )
    if not questions:
        words = "No question of the labelled sets has an answer to look for. Mark some passages."
    elif questions < FEW:
        words += f" With fewer than {FEW} questions, only large differences show."
    if unsound:
        words += f" {unsound} sets could not be measured."
    return GateResult(
        LABELLED, bool(questions) and not falls and not unsound, words, figures=figures
    )


def _start_runs(build: IndexBuild) -> list[list[str]]:
    """A run in the old index and one in the new, for each labelled set that has questions."""
    with tenant_scope(build.tenant_id):
        sets = list(LabelledSet.objects.filter(tenant_id=build.tenant_id).order_by("created_at"))
        pairs = []
        for labelled_set in sets:
            try:
                pairs.append(
                    [_start(build, labelled_set, "source"), _start(build, labelled_set, "target")]
                )
            except NothingToMeasure:
                continue
    return pairs


def _start(build: IndexBuild, labelled_set: LabelledSet, which: str) -> str:
    run = start_run(
        tenant=build.tenant,
        labelled_set=labelled_set,
        trigger=EvalRun.Trigger.GATE,
        sample=SAMPLE,
        index=getattr(build, which),
    )
    return str(run.id)


def _read_runs(tenant_id: uuid.UUID, pairs: Sequence[Sequence[str]]) -> list[list[EvalRun]]:
    """Pairs that are still there: a set may have been deleted meanwhile."""
    ids = [run_id for pair in pairs for run_id in pair]
    with tenant_scope(tenant_id):
        runs = {str(run.id): run for run in EvalRun.objects.filter(tenant_id=tenant_id, id__in=ids)}
    return [
        [runs[run_id] for run_id in pair] for pair in pairs if all(each in runs for each in pair)
    ]


def _is_sound(run: EvalRun) -> bool:
    return run.state == EvalRun.State.DONE and not run.figures.get("degraded")


def _recent_questions(tenant_id: uuid.UUID) -> list[str]:
    """What was asked first in a conversation, newest first: a follow-up does not stand alone."""
    with tenant_scope(tenant_id):
        messages = Message.objects.filter(
            tenant_id=tenant_id, role=MessageRole.QUESTION, conversation__deleted_at=None
        ).order_by("conversation_id", "created_at", "id")
        first = messages.distinct("conversation_id").values_list("id", flat=True)
        newest = Message.objects.filter(tenant_id=tenant_id, id__in=first).order_by("-created_at")
        return list(newest.values_list("text", flat=True)[:SHADOW_QUESTIONS])


def _top(
    tenant_id: uuid.UUID,
    index: EmbeddingIndex,
    question: str,
    collection_ids: Sequence[uuid.UUID],
) -> set[tuple[uuid.UUID, int]]:
    """Passages by where they are, for those of two cuts are never the same rows."""
    # Nobody's answer: not stored.
    trace = Trace(tenant_id, "answer", source="evaluation", collection_ids=tuple(collection_ids))
    found = retrieve(
        tenant_id=tenant_id,
        question=question,
        collection_ids=collection_ids,
        trace=trace,
        limit=TOP,
        index=index,
    )
    account_for(trace)
    return {(passage.document_id, passage.page_first) for passage in found.passages}
