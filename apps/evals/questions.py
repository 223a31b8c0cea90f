"""The questions of a set that can be measured, and where their labels are now.

Call inside the tenant's scope.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.documents.models import Document, DocumentState
from apps.documents.selectors import pages_of
from apps.evals.matching import Labelled
from apps.evals.models import Label, LabelledQuestion, LabelledSet

# A range of a longer document is not looked for again once another version has replaced it.
_FOLLOWED_CHARS_MAX = 10_000_000


@dataclass(frozen=True)
class Asked:
    """A question with its labels. Without any: one that the collection cannot answer."""

    id: uuid.UUID
    text: str
    labels: tuple[Labelled, ...]
    unanswerable: bool

    @property
    def is_answerable(self) -> bool:
        return any(label.grade > 0 for label in self.labels)

    @property
    def fingerprint(self) -> str:
        """Of what was asked and what counts as an answer: alike, two runs can be compared."""
        places = sorted(
            f"{label.document_id} {label.start} {label.end} {label.grade}" for label in self.labels
        )
        return hashlib.sha256("\n".join([self.text, *places]).encode()).hexdigest()[:16]


def chosen_ids(labelled_set: LabelledSet, *, sample: int | None, seed: int) -> list[uuid.UUID]:
    """Questions of a run: all that can be measured, or `sample` of them.

    Drawn by a hash of seed and key, so that a question that is added or deleted changes the draw
    by one, and runs of different days have almost all of it in common.
    """
    rows = list(measurable(labelled_set).values_list("id", "key"))
    if sample is not None:
        rows = sorted(rows, key=lambda row: _draw(seed, row[1]))[:sample]
    return sorted(row[0] for row in rows)


def measurable(labelled_set: LabelledSet) -> QuerySet[LabelledQuestion]:
    """With a relevant label, or said to have no answer; any other says nothing of a search."""
    relevant = Label.objects.filter(
        tenant_id=labelled_set.tenant_id, question=OuterRef("pk"), grade__gt=0
    )
    return LabelledQuestion.objects.filter(
        Q(unanswerable=True) | Exists(relevant),
        tenant_id=labelled_set.tenant_id,
        labelled_set=labelled_set,
    )


def read_questions(tenant_id: uuid.UUID, ids: Sequence[uuid.UUID]) -> list[Asked]:
    """In the order of `ids`; those that are gone are left out.

    A label on a version that another has replaced is followed to the one that is searched: the
    document by its path, a range by its text. Where that is gone, so is the label.
    """
    questions = {
        each.id: each for each in LabelledQuestion.objects.filter(tenant_id=tenant_id, id__in=ids)
    }
    labels = Label.objects.filter(tenant_id=tenant_id, question__in=questions)
    by_question: dict[uuid.UUID, list[Labelled]] = {each: [] for each in questions}
    for question_id, label in _current(tenant_id, labels.order_by("id")):
        by_question[question_id].append(label)
    return [
        Asked(each, questions[each].text, tuple(by_question[each]), questions[each].unanswerable)
        for each in ids
        if each in questions
    ]


def _current(tenant_id: uuid.UUID, labels: Iterable[Label]) -> Iterable[tuple[uuid.UUID, Labelled]]:
    rows = [
        (
            each.question_id,
            Labelled(each.id, each.document_id, each.char_start, each.char_end, each.grade),
        )
        for each in labels
    ]
    replaced = _replacements(tenant_id, {label.document_id for _, label in rows})
    for question_id, label in rows:
        if label.document_id not in replaced:
            yield question_id, label
        elif (moved := _follow(tenant_id, label, replaced[label.document_id])) is not None:
            yield question_id, moved


def _replacements(
    tenant_id: uuid.UUID, document_ids: Iterable[uuid.UUID]
) -> dict[uuid.UUID, uuid.UUID]:
    """Superseded documents with the version of the same path that is searched in their place."""
    old = Document.objects.filter(
        tenant_id=tenant_id, id__in=document_ids, state=DocumentState.SUPERSEDED
    )
    ready = Document.objects.filter(
        tenant_id=tenant_id,
        collection=OuterRef("collection"),
        path=OuterRef("path"),
        state=DocumentState.READY,
    )
    found = old.annotate(current=ready.order_by("-version").values("id")[:1])
    return {row[0]: row[1] for row in found.values_list("id", "current") if row[1] is not None}


def _follow(tenant_id: uuid.UUID, label: Labelled, document_id: uuid.UUID) -> Labelled | None:
    moved = replace(label, document_id=document_id)
    if label.start is None or label.end is None:
        return moved
    words = _text_of(tenant_id, label.document_id)[label.start : label.end]
    start = _nearest(_text_of(tenant_id, document_id), words, label.start)
    return None if start is None else replace(moved, start=start, end=start + len(words))


def _text_of(tenant_id: uuid.UUID, document_id: uuid.UUID) -> str:
    """The document's text; nothing of one that is too long to look through."""
    pages = pages_of(tenant_id, document_id).order_by("number")
    last = pages.last()
    if last is None or last.char_start > _FOLLOWED_CHARS_MAX:
        return ""
    text = ""
    for page in pages:
        text = text.ljust(page.char_start) + page.text
    return text


def _nearest(text: str, words: str, place: int) -> int | None:
    """Where `words` stand in `text`, as near as can be to where they stood before."""
    if not words:
        return None
    before, after = text.rfind(words, 0, place + len(words)), text.find(words, place)
    found = [start for start in (before, after) if start >= 0]
    return min(found, key=lambda start: abs(start - place)) if found else None


def _draw(seed: int, key: str) -> str:
    return hashlib.sha256(f"{seed}:{key}".encode()).hexdigest()
