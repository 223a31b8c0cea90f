"""Questions written or marked by hand."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import IntegrityError, transaction

from apps.evals import fields
from apps.evals.errors import PlaceGone, QuestionRefused, SetGone
from apps.evals.matching import Found, Labelled, hits
from apps.evals.models import Label, LabelledQuestion, LabelledSet, RunQuestion
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope


@dataclass(frozen=True)
class Marked:
    """A passage as it was shown: a range of a document's text."""

    document_id: uuid.UUID
    start: int
    end: int


def add_question(
    *,
    tenant: Tenant,
    labelled_set: LabelledSet,
    text: str,
    reference_answer: str = "",
    slices: Iterable[str] = (),
    unanswerable: bool = False,
) -> LabelledQuestion:
    """A question of the set; the same words again are the question that is there, brought up to
    date. Raises QuestionRefused or SetGone.
    """
    text = fields.question_text(text)
    values = {
        "reference_answer": fields.bounded(reference_answer, "The answer", fields.ANSWER_MAX_CHARS),
        "slices": fields.slices_of(slices),
        "unanswerable": unanswerable,
    }
    with tenant_scope(tenant.id):
        question = _question(tenant, labelled_set, text)
        return _save(question, **values)


def update_question(
    *,
    tenant: Tenant,
    question: LabelledQuestion,
    text: str,
    reference_answer: str,
    slices: Iterable[str],
    unanswerable: bool,
) -> LabelledQuestion:
    """Change a question; its labels stay. Raises QuestionRefused.

    One with a relevant label is answerable, whatever is said.
    """
    text = fields.question_text(text)
    values: dict[str, object] = {
        "text": text,
        "reference_answer": fields.bounded(reference_answer, "The answer", fields.ANSWER_MAX_CHARS),
        "slices": fields.slices_of(slices),
        "unanswerable": unanswerable,
    }
    with tenant_scope(tenant.id):
        locked = _locked(tenant, question.id)
        if locked is None:
            raise SetGone("The question was deleted meanwhile.")
        if unanswerable and _has_answer(locked):
            raise QuestionRefused(
                "Passages are marked as answers to this question. Take the marks away first."
            )
        if locked.key == fields.key_of(locked.text):
            values["key"] = fields.key_of(text)  # found again by its new words
        return _save_under_its_key(locked, **values)


def delete_question(*, tenant: Tenant, question: LabelledQuestion) -> None:
    """Delete a question with its labels, and what runs found for it."""
    with tenant_scope(tenant.id):
        LabelledQuestion.objects.filter(tenant=tenant, id=question.id).delete()


def delete_label(*, tenant: Tenant, question: LabelledQuestion, label_id: int) -> None:
    """Take one label of the question away."""
    with tenant_scope(tenant.id):
        Label.objects.filter(tenant=tenant, question=question, id=label_id).delete()


def mark_passage(
    *,
    tenant: Tenant,
    labelled_set: LabelledSet,
    user: User | None,
    question: str,
    passage: Marked,
    grade: int | None,
) -> None:
    """Label the passage for the question, which becomes one of the set; None takes it back.

    A passage that hits labels already (it was cut differently then) changes their grade, so that
    no place is counted twice. Raises QuestionRefused, SetGone or PlaceGone.
    """
    text = fields.question_text(question)
    with tenant_scope(tenant.id):
        if grade is None:
            _unmark(tenant, labelled_set, text, passage)
            return
        row = _question(tenant, labelled_set, text)
        hit = _hit(row, passage)
        if hit:
            Label.objects.filter(tenant=tenant, id__in=hit).update(grade=grade, created_by=user)
        else:
            label_places(tenant=tenant, question=row, user=user, grades=[(passage, grade)])
        if grade > 0 and row.unanswerable:
            _save(row, unanswerable=False)


def mark_unanswerable(
    *, tenant: Tenant, labelled_set: LabelledSet, question: str, unanswerable: bool
) -> None:
    """Say that the documents do not answer the question, or take that back.

    Raises QuestionRefused where a passage is marked as an answer.
    """
    text = fields.question_text(question)
    with tenant_scope(tenant.id):
        if not unanswerable:
            _hold(tenant, labelled_set)
            for row in _same_words(tenant, labelled_set, text):
                locked = _locked(tenant, row.id)
                if locked is not None:
                    _drop_if_bare(_save(locked, unanswerable=False))
            return
        row = _question(tenant, labelled_set, text)
        if _has_answer(row):
            raise QuestionRefused("A passage is marked as an answer. Take that mark away first.")
        _save(row, unanswerable=True)


def label_places(
    *,
    tenant: Tenant,
    question: LabelledQuestion,
    user: User | None,
    grades: Sequence[tuple[Marked, int]],
) -> None:
    """Labels for ranges of documents; one that is there gets the new grade. Raises PlaceGone.

    Call inside a scope that holds the question.
    """
    labels = [
        Label(
            tenant=tenant,
            question=question,
            document_id=passage.document_id,
            char_start=passage.start,
            char_end=passage.end,
            grade=grade,
            created_by=user,
        )
        for passage, grade in grades
    ]
    try:
        Label.objects.bulk_create(
            labels,
            update_conflicts=True,
            unique_fields=["tenant", "question", "document", "char_start", "char_end"],
            update_fields=["grade", "created_by"],
        )
    except IntegrityError as exc:
        raise PlaceGone("The document was deleted meanwhile. Search again.") from exc


def _unmark(tenant: Tenant, labelled_set: LabelledSet, text: str, passage: Marked) -> None:
    _hold(tenant, labelled_set)
    for row in _same_words(tenant, labelled_set, text):
        locked = _locked(tenant, row.id)
        if locked is not None:
            Label.objects.filter(tenant=tenant, id__in=_hit(locked, passage)).delete()
            _drop_if_bare(locked)


def _hold(tenant: Tenant, labelled_set: LabelledSet) -> None:
    """Marks of a set take turns: each may make a question, or be the last one that goes.

    Raises SetGone.
    """
    rows = LabelledSet.objects.filter(tenant=tenant, id=labelled_set.id)
    if not rows.select_for_update(no_key=True):
        raise SetGone("The set was deleted meanwhile. Choose another one.")


def _question(tenant: Tenant, labelled_set: LabelledSet, text: str) -> LabelledQuestion:
    """The set's question in these words, made where there is none; held until the commit."""
    _hold(tenant, labelled_set)
    for known in _same_words(tenant, labelled_set, text):
        locked = _locked(tenant, known.id)
        if locked is not None:  # else deleted at this moment
            return locked
    return LabelledQuestion.objects.create(
        tenant=tenant, labelled_set=labelled_set, key=fields.key_of(text), text=text
    )


def _same_words(tenant: Tenant, labelled_set: LabelledSet, text: str) -> list[LabelledQuestion]:
    """Questions of the set in these words: the one under their key, else as they came in."""
    rows = LabelledQuestion.objects.filter(tenant=tenant, labelled_set=labelled_set)
    under_key = list(rows.filter(key=fields.key_of(text)))
    return under_key or list(rows.filter(text=text).order_by("created_at", "id")[:1])


def _locked(tenant: Tenant, question_id: uuid.UUID) -> LabelledQuestion | None:
    rows = LabelledQuestion.objects.filter(tenant=tenant, id=question_id)
    return rows.select_for_update(no_key=True).first()


def _hit(question: LabelledQuestion, passage: Marked) -> list[int]:
    """Ranges that the passage is on. A whole document is not one: the mark is more exact."""
    chunk = Found(question.id, passage.document_id, start=passage.start, end=passage.end, score=0.0)
    labels = Label.objects.filter(
        tenant_id=question.tenant_id,
        question=question,
        document_id=passage.document_id,
        char_start__isnull=False,
    )
    rows = labels.values_list("id", "document_id", "char_start", "char_end", "grade")
    return [row[0] for row in rows if hits(Labelled(*row), chunk)]


def _has_answer(question: LabelledQuestion) -> bool:
    labels = Label.objects.filter(tenant_id=question.tenant_id, question=question, grade__gt=0)
    return labels.exists()


def _drop_if_bare(question: LabelledQuestion) -> None:
    """A question that marking made goes with its last mark, unless it holds something else."""
    is_bare = (
        question.key == fields.key_of(question.text)
        and not question.unanswerable
        and not question.reference_answer
        and not question.slices
    )
    owned = {"tenant_id": question.tenant_id, "question": question}
    if is_bare and not (
        Label.objects.filter(**owned).exists() or RunQuestion.objects.filter(**owned).exists()
    ):
        question.delete()


def _save_under_its_key(question: LabelledQuestion, **values: object) -> LabelledQuestion:
    try:
        with transaction.atomic():
            return _save(question, **values)
    except IntegrityError as exc:
        raise QuestionRefused("The set has a question in these words already.") from exc


def _save(question: LabelledQuestion, **values: object) -> LabelledQuestion:
    for name, value in values.items():
        setattr(question, name, value)
    question.save(update_fields=list(values))
    return question
