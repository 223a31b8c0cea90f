"""Making, filling, changing and deleting labelled sets."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from apps.documents.models import Collection
from apps.evals.errors import PlaceGone, QuestionRefused, SetGone, SetNameTaken
from apps.evals.fields import clean
from apps.evals.importing import Plan, Planned
from apps.evals.models import Label, LabelledQuestion, LabelledSet
from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope

NAME_MAX_CHARS = 200
_ROWS_PER_STATEMENT = 1000


@dataclass(frozen=True)
class Imported:
    """What an import wrote, and into which set."""

    labelled_set: LabelledSet
    questions: int
    labels: int


def create_set(
    *,
    tenant: Tenant,
    collection: Collection,
    user: User | None,
    name: str,
    origin: LabelledSet.Origin,
) -> LabelledSet:
    """An empty set. The same name in the same collection again is the set that is there.

    Raises SetNameTaken where it is another collection's, QuestionRefused where it is empty.
    """
    name = clean(name)
    if not 0 < len(name) <= NAME_MAX_CHARS:
        raise QuestionRefused(f"A set's name has 1 to {NAME_MAX_CHARS} characters.")
    with tenant_scope(tenant.id):
        made, is_new = LabelledSet.objects.get_or_create(
            tenant=tenant,
            name=name,
            defaults={"collection": collection, "origin": origin, "created_by": user},
        )
        if made.collection_id != collection.id:
            raise SetNameTaken(
                f"There is a set named “{name}” of another collection. Choose another name."
            )
        if is_new:
            _audit("labelled_set.created", tenant, made.id, user)
    return made


def update_set(
    *, tenant: Tenant, labelled_set: LabelledSet, actor: User | None, name: str, nightly: bool
) -> LabelledSet:
    """Rename a set, and say whether it is measured by itself. Raises SetNameTaken."""
    name = clean(name)
    if not 0 < len(name) <= NAME_MAX_CHARS:
        raise QuestionRefused(f"A set's name has 1 to {NAME_MAX_CHARS} characters.")
    with tenant_scope(tenant.id):
        rows = LabelledSet.objects.filter(tenant=tenant, id=labelled_set.id)
        try:
            with transaction.atomic():
                rows.update(name=name, nightly=nightly, updated_at=timezone.now())
        except IntegrityError as exc:
            raise SetNameTaken(
                f"There is a set named “{name}” already. Choose another name."
            ) from exc
        _audit("labelled_set.changed", tenant, labelled_set.id, actor)
        found = rows.first()
    if found is None:
        raise SetGone("The set was deleted meanwhile.")
    return found


def delete_set(*, tenant: Tenant, labelled_set: LabelledSet, actor: User | None) -> None:
    """Delete a set with its questions, labels and runs; the database removes what hangs on it."""
    with tenant_scope(tenant.id):
        LabelledSet.objects.filter(tenant=tenant, id=labelled_set.id).delete()
        _audit("labelled_set.deleted", tenant, labelled_set.id, actor)


def import_plan(
    *, tenant: Tenant, collection: Collection, user: User | None, name: str, plan: Plan
) -> Imported:
    """Write what was planned into the collection's set called `name`, made where there is none.

    All of it or nothing. A question whose key the set has is replaced with its labels; others
    stay. Two imports at once take turns. Raises SetNameTaken, SetGone or PlaceGone.
    """
    with tenant_scope(tenant.id):
        labelled_set = create_set(
            tenant=tenant,
            collection=collection,
            user=user,
            name=name,
            origin=LabelledSet.Origin.UPLOAD,
        )
        rows = LabelledSet.objects.filter(tenant=tenant, id=labelled_set.id)
        if not rows.select_for_update(no_key=True):
            raise SetGone("The set was deleted meanwhile. Import once more to make it again.")
        _hold_documents(tenant.id, plan)
        for part in _parts(plan.questions):
            _write_questions(tenant, labelled_set, part)
        _forget_plans()
        for part in _parts(plan.questions):
            _write_labels(tenant, labelled_set, user, part)
        rows.update(updated_at=timezone.now())
        _audit("labelled_set.imported", tenant, labelled_set.id, user)
    return Imported(labelled_set, len(plan.questions), plan.labels)


def _hold_documents(tenant_id: uuid.UUID, plan: Plan) -> None:
    """Documents before labels, as deleting a document takes them: else both could wait for ever."""
    ids = sorted({place.document_id for each in plan.questions for place in each.labels})
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT 1 FROM documents_document WHERE tenant_id = %s"
            " AND id = ANY(%s) ORDER BY id FOR KEY SHARE) AS held",
            [tenant_id, ids],
        )
        held = cursor.fetchone()[0]
    if held != len(ids):
        raise PlaceGone("A document was deleted meanwhile. Check the file again, then import it.")


def _write_questions(tenant: Tenant, labelled_set: LabelledSet, part: Sequence[Planned]) -> None:
    LabelledQuestion.objects.bulk_create(
        [
            LabelledQuestion(
                tenant=tenant,
                labelled_set=labelled_set,
                key=each.question.key,
                text=each.question.text,
                reference_answer=each.question.answer,
                slices=each.question.slices,
                unanswerable=each.question.unanswerable,
            )
            for each in part
        ],
        update_conflicts=True,
        unique_fields=["tenant", "labelled_set", "key"],
        update_fields=["text", "reference_answer", "slices", "unanswerable"],
    )


def _forget_plans() -> None:
    """Labels are checked against questions by a plan that the session keeps.

    Made while there were few questions it reads all of them for each label: 50,000 labels of
    20,000 questions took 143 s, and 12 s without it (busy machine, reading and placing included).
    """
    with connection.cursor() as cursor:
        cursor.execute("DISCARD PLANS")


def _write_labels(
    tenant: Tenant, labelled_set: LabelledSet, user: User | None, part: Sequence[Planned]
) -> None:
    keys = [each.question.key for each in part]
    rows = LabelledQuestion.objects.filter(tenant=tenant, labelled_set=labelled_set, key__in=keys)
    ids = dict(rows.values_list("key", "id"))
    Label.objects.filter(tenant=tenant, question__in=ids.values()).delete()
    _insert_labels(tenant, user, ids, part)


def _insert_labels(
    tenant: Tenant, user: User | None, ids: Mapping[str, uuid.UUID], part: Sequence[Planned]
) -> None:
    """In one statement, a list a column: 200,000 objects took three times as long.

    The questions are held, so nobody marks a passage of theirs at this moment.
    """
    rows = [
        (ids[each.question.key], place.document_id, place.start, place.end, grade)
        for each in part
        for place, grade in each.labels.items()
    ]
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO evals_label (tenant_id, created_by_id, created_at, question_id,"
                " document_id, char_start, char_end, grade) SELECT %s, %s, now(), * FROM"
                " unnest(%s::uuid[], %s::uuid[], %s::int[], %s::int[], %s::smallint[])",
                [tenant.id, user.id if user else None, *map(list, zip(*rows, strict=True))],
            )


def _parts(planned: Iterable[Planned]) -> Iterator[list[Planned]]:
    rest = iter(planned)
    while part := list(islice(rest, _ROWS_PER_STATEMENT)):
        yield part


def _audit(action: str, tenant: Tenant, set_id: uuid.UUID, actor: User | None) -> None:
    record_audit(
        action=action,
        tenant_id=tenant.id,
        actor_id=actor.id if actor else None,
        subject_id=set_id,
    )
