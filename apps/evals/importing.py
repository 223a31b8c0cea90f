"""Whether an upload of labelled questions fits a collection, and what it comes to."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from apps.documents.models import Collection
from apps.evals.errors import UploadTooLarge
from apps.evals.formats import Judgement, Problems, Question, Reading
from apps.evals.models import LabelledQuestion, LabelledSet
from apps.evals.places import SEARCHED_CHARS_MAX, DocumentText, Names, Range
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

_KEYS_PER_QUERY = 5000
# Thousands of passages that are not there, looked for in a book of ten million characters.
PLACING_S_MAX = 60.0


@dataclass(frozen=True)
class Place:
    """A label to be: a document, or a range of one."""

    document_id: uuid.UUID
    start: int | None
    end: int | None


@dataclass
class Planned:
    """A question with the labels that could be placed, and their grades."""

    question: Question
    labels: dict[Place, int] = field(default_factory=dict)


@dataclass
class Plan:
    """What an import would write, and what it would not."""

    format: str
    notes: list[str]
    problems: Problems
    questions: list[Planned] = field(default_factory=list)
    replaced: int = 0  # questions that the set has already

    @property
    def labels(self) -> int:
        return sum(len(each.labels) for each in self.questions)

    @property
    def ranges(self) -> int:
        """Labels that say where in their document."""
        places = (place for each in self.questions for place in each.labels)
        return sum(place.start is not None for place in places)

    @property
    def unanswerable(self) -> int:
        return sum(each.question.unanswerable for each in self.questions)

    @property
    def unlabelled(self) -> int:
        """Questions that are left out of runs until a passage is marked."""
        return sum(not (each.labels or each.question.unanswerable) for each in self.questions)


def plan_import(
    *,
    tenant: Tenant,
    collection: Collection,
    reading: Reading,
    labelled_set: LabelledSet | None = None,
) -> Plan:
    """Place each label of `reading` in the collection's documents. Writes nothing.

    A label whose document or passage is not found is a problem, and so is a question that has
    none of its labels left: it is not taken. Raises UploadTooLarge where that takes too long.
    """
    plan = Plan(reading.format, list(reading.notes), reading.problems)
    with tenant_scope(tenant.id):
        placed = _place_all(tenant.id, collection.id, reading)
        for question in reading.questions.values():
            planned = Planned(question)
            for judgement in question.judgements:
                if (place := placed.get(id(judgement))) is not None:
                    _add(planned, place, judgement, plan.problems)
            if _is_taken(planned, plan.problems):
                plan.questions.append(planned)
        if labelled_set is not None:
            plan.replaced = _known(labelled_set, [each.question.key for each in plan.questions])
    return plan


def _add(planned: Planned, place: Place, judgement: Judgement, problems: Problems) -> None:
    if planned.labels.setdefault(place, judgement.grade) != judgement.grade:
        problems.add(
            "two_grades",
            judgement.where,
            f"The same place has grade {planned.labels[place]} already: the higher one is taken.",
        )
        planned.labels[place] = max(planned.labels[place], judgement.grade)


def _is_taken(planned: Planned, problems: Problems) -> bool:
    question = planned.question
    if question.judgements and not planned.labels and not question.unanswerable:
        problems.add(
            "no_label_left",
            question.where,
            "None of this question's labels could be placed: it is not taken.",
        )
        return False
    if question.unanswerable and any(planned.labels.values()):
        problems.add(
            "has_an_answer",
            question.where,
            "Said to be unanswerable, and labelled with an answer: taken as answerable.",
        )
        question.unanswerable = False
    return True


def _known(labelled_set: LabelledSet, keys: list[str]) -> int:
    rows = LabelledQuestion.objects.filter(
        tenant_id=labelled_set.tenant_id, labelled_set=labelled_set
    )
    parts = (keys[at : at + _KEYS_PER_QUERY] for at in range(0, len(keys), _KEYS_PER_QUERY))
    return sum(rows.filter(key__in=part).count() for part in parts)


def _place_all(
    tenant_id: uuid.UUID, collection_id: uuid.UUID, reading: Reading
) -> dict[int, Place]:
    """Places by `id` of the judgement. Each document's text is read once, one at a time."""
    judgements = [each for question in reading.questions.values() for each in question.judgements]
    names = Names(tenant_id, collection_id, (each.document for each in judgements))
    by_document: dict[uuid.UUID, list[Judgement]] = {}
    placed: dict[int, Place] = {}
    for judgement, document_id in _named(judgements, names, reading.problems):
        if judgement.passage or judgement.page is not None or judgement.char_end is not None:
            by_document.setdefault(document_id, []).append(judgement)
        else:
            placed[id(judgement)] = Place(document_id, None, None)
    until = time.monotonic() + PLACING_S_MAX
    for document_id, within in by_document.items():
        text = DocumentText(tenant_id, document_id)
        for judgement in within:
            if time.monotonic() > until:
                raise UploadTooLarge(
                    f"Looking for the passages takes more than {PLACING_S_MAX:.0f} s. Send a part "
                    "of the file, or give char_start and char_end instead of passages."
                )
            if (found := _find(text, judgement, reading.problems)) is not None:
                placed[id(judgement)] = Place(document_id, found.start, found.end)
    return placed


def _named(
    judgements: Iterable[Judgement], names: Names, problems: Problems
) -> Iterator[tuple[Judgement, uuid.UUID]]:
    for judgement in judgements:
        found = names.find(judgement.document)
        if len(found) == 1:
            yield judgement, found[0]
        elif found:
            problems.add(
                "ambiguous_document",
                judgement.where,
                f"{len(found)} documents are called “{judgement.document}”: give the whole path.",
            )
        else:
            problems.add(
                "unknown_document",
                judgement.where,
                f"The collection has no document “{judgement.document}”.",
            )


def _find(text: DocumentText, judgement: Judgement, problems: Problems) -> Range | None:
    if not text.is_read:
        problems.add("not_read", judgement.where, f"“{judgement.document}” has no text (yet).")
        return None
    if judgement.char_start is not None and judgement.char_end is not None:
        if judgement.char_end <= text.length:
            return Range(judgement.char_start, judgement.char_end)
        problems.add(
            "outside",
            judgement.where,
            f"“{judgement.document}” has {text.length:,} characters, and the range ends at "
            f"{judgement.char_end:,}.",
        )
        return None
    if judgement.passage:
        return _find_passage(text, judgement, problems)
    found = text.page(judgement.page or 0)
    if found is None:
        problems.add(
            "no_page",
            judgement.where,
            f"“{judgement.document}” has no page {judgement.page}, or nothing is on it.",
        )
    return found


def _find_passage(text: DocumentText, judgement: Judgement, problems: Problems) -> Range | None:
    if text.is_too_long:
        problems.add(
            "too_long",
            judgement.where,
            f"“{judgement.document}” has more than {SEARCHED_CHARS_MAX:,} characters: give the "
            "page, or char_start and char_end.",
        )
        return None
    found = text.find(judgement.passage)
    if found is None:
        problems.add(
            "passage_not_found",
            judgement.where,
            f"This passage is not in the text of “{judgement.document}”.",
        )
    elif found.is_repeated:
        problems.add(
            "passage_repeated",
            judgement.where,
            f"This passage is in “{judgement.document}” more than once: the first is taken.",
        )
    return found
