"""Labelled sets with their questions and labels. Call inside the tenant's scope."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL

from apps.evals.models import Label, LabelledQuestion, LabelledSet

QUESTIONS_SHOWN = 50
_CONDITIONS = {
    "answerable": Q(has_answer=True),
    "unanswerable": Q(has_answer=False, unanswerable=True),
    "unlabelled": Q(has_answer=False, unanswerable=False),
}
KINDS = tuple(_CONDITIONS)
_EXPORTED_PER_QUERY = 1000


@dataclass(frozen=True)
class SetCounts:
    """Questions of a set; `unlabelled` ones are left out of runs."""

    questions: int = 0
    answerable: int = 0
    unanswerable: int = 0

    @property
    def unlabelled(self) -> int:
        return self.questions - self.answerable - self.unanswerable


@dataclass(frozen=True)
class Wanted:
    """Which questions of a set to list; empty: all."""

    words: str = ""  # a part of the question
    slice: str = ""
    kind: str = ""  # one of KINDS

    def __bool__(self) -> bool:
        return bool(self.words or self.slice or self.kind)


@dataclass(frozen=True)
class Listed:
    """A question with its labels, as a list shows it."""

    question: LabelledQuestion
    labels: Sequence[Label]  # each with its document


@dataclass(frozen=True)
class QuestionsPage:
    """Some questions, and where the next ones begin ("" at the end)."""

    rows: Sequence[Listed]
    after: str


def set_counts(tenant_id: uuid.UUID, set_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, SetCounts]:
    """Counts by set; an empty one has zeros."""
    ids = list(set_ids)
    rows = (
        LabelledQuestion.objects.filter(tenant_id=tenant_id, labelled_set__in=ids)
        .annotate(has_answer=Exists(_answers(tenant_id)))
        .values_list("labelled_set")
        .annotate(
            questions=Count("id"),
            answerable=Count("id", filter=Q(has_answer=True)),
            unanswerable=Count("id", filter=Q(has_answer=False, unanswerable=True)),
        )
    )
    counted = {row[0]: SetCounts(*row[1:]) for row in rows}
    return {each: counted.get(each, SetCounts()) for each in ids}


def _answers(tenant_id: uuid.UUID) -> QuerySet[Label]:
    return Label.objects.filter(tenant_id=tenant_id, question=OuterRef("pk"), grade__gt=0)


def slices_of_set(labelled_set: LabelledSet) -> list[str]:
    """The slices that its questions are in, by name."""
    questions = LabelledQuestion.objects.filter(
        tenant_id=labelled_set.tenant_id, labelled_set=labelled_set
    )
    names = questions.annotate(name=RawSQL("unnest(slices)", [])).values_list("name", flat=True)
    return sorted(set(names.distinct()))


def questions_page(
    labelled_set: LabelledSet, wanted: Wanted = Wanted(), *, after: str = ""
) -> QuestionsPage:
    """At most QUESTIONS_SHOWN of a set's questions, newest first, from `after` on."""
    rows = _matching(labelled_set, wanted).order_by("-created_at", "-id")
    if (cursor := _cursor(after)) is not None:
        at, last_id = cursor
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, id__lt=last_id))
    found = list(rows[: QUESTIONS_SHOWN + 1])
    shown = found[:QUESTIONS_SHOWN]
    last = shown[-1] if len(found) > QUESTIONS_SHOWN else None
    return QuestionsPage(
        _with_labels(labelled_set.tenant_id, shown),
        f"{last.created_at.isoformat()}_{last.id}" if last else "",
    )


def _matching(labelled_set: LabelledSet, wanted: Wanted) -> QuerySet[LabelledQuestion]:
    rows = LabelledQuestion.objects.filter(
        tenant_id=labelled_set.tenant_id, labelled_set=labelled_set
    )
    if wanted.words:
        rows = rows.filter(text__icontains=wanted.words.replace("\0", ""))
    if wanted.slice:
        rows = rows.filter(slices__contains=[wanted.slice.replace("\0", "")])
    if wanted.kind in KINDS:
        answered = Exists(_answers(labelled_set.tenant_id))
        rows = rows.annotate(has_answer=answered).filter(_CONDITIONS[wanted.kind])
    return rows


def _cursor(after: str) -> tuple[datetime, uuid.UUID] | None:
    at, _, last_id = after.partition("_")
    try:
        moment = datetime.fromisoformat(at)
        found = (moment, uuid.UUID(last_id))
    except ValueError:
        return None
    return found if moment.tzinfo is not None else None


def _with_labels(tenant_id: uuid.UUID, questions: Sequence[LabelledQuestion]) -> list[Listed]:
    labels: dict[uuid.UUID, list[Label]] = {each.id: [] for each in questions}
    for label in labels_of(tenant_id, labels):
        labels[label.question_id].append(label)
    return [Listed(each, labels[each.id]) for each in questions]


def labels_of(tenant_id: uuid.UUID, question_ids: Iterable[uuid.UUID]) -> QuerySet[Label]:
    """Labels with their documents, best grade first."""
    return (
        Label.objects.filter(tenant_id=tenant_id, question__in=list(question_ids))
        .select_related("document")
        .order_by("-grade", "document_id", "char_start", "id")
    )


def get_question(labelled_set: LabelledSet, question_id: uuid.UUID) -> LabelledQuestion | None:
    """The question, where it is the set's."""
    return LabelledQuestion.objects.filter(
        tenant_id=labelled_set.tenant_id, labelled_set=labelled_set, id=question_id
    ).first()


def export_lines(labelled_set: LabelledSet) -> Iterator[str]:
    """The set as JSON lines, as an upload takes them, oldest question first."""
    rows = LabelledQuestion.objects.filter(
        tenant_id=labelled_set.tenant_id, labelled_set=labelled_set
    ).order_by("created_at", "id")
    ids = list(rows.values_list("id", flat=True))
    for at in range(0, len(ids), _EXPORTED_PER_QUERY):
        part = list(rows.filter(id__in=ids[at : at + _EXPORTED_PER_QUERY]))
        for each in _with_labels(labelled_set.tenant_id, part):
            yield json.dumps(_exported(each), ensure_ascii=False)


def _exported(listed: Listed) -> dict[str, Any]:
    question = listed.question
    whole: dict[str, Any] = {"id": question.key, "question": question.text}
    if question.reference_answer:
        whole["answer"] = question.reference_answer
    if question.slices:
        whole["slices"] = question.slices
    if question.unanswerable:
        whole["unanswerable"] = True
    whole["labels"] = [_exported_label(label) for label in listed.labels]
    return whole


def _exported_label(label: Label) -> dict[str, Any]:
    place = {"document": label.document.path, "grade": label.grade}
    if label.char_start is not None:
        place |= {"char_start": label.char_start, "char_end": label.char_end}
    return place
