"""A BEIR folder's passages as documents of a collection, and its judgements as a labelled set.

Documents come as uploads do and are parsed, cut and indexed by the workers. Loading a folder again
sends what is new or has changed and deletes what is gone, so an unchanged one costs a look.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from io import BytesIO

from django.db.models import QuerySet

from apps.documents import services
from apps.documents.errors import DocumentError, DuplicateDocument
from apps.documents.jobs import UNFINISHED
from apps.documents.models import Batch, Collection, Document, DocumentState
from apps.evals.beir import Folder, Passage, Query
from apps.evals.errors import SetNameTaken
from apps.evals.models import Label, LabelledQuestion, LabelledSet
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

_POLL_S = 0.5
_ROWS_AT_ONCE = 1000


@dataclass
class Loaded:
    """What became of a corpus."""

    total: int = 0
    sent: int = 0
    unchanged: int = 0
    removed: int = 0
    empty: int = 0
    same_text: int = 0  # as another id: one document stands for both
    failed: dict[str, str] = field(default_factory=dict)  # id: code
    documents: dict[str, uuid.UUID] = field(default_factory=dict)  # by id


@dataclass
class _Plan:
    """Which documents there are to be: path and SHA-256 of each id's, without texts."""

    wanted: dict[str, tuple[str, str]] = field(default_factory=dict)
    same_as: dict[str, str] = field(default_factory=dict)  # id: the id with the same bytes
    empty: int = 0


Progress = Callable[[str, int, int], None]  # what is being done, how many, of how many


def load_corpus(
    *, tenant: Tenant, collection: Collection, folder: Folder, on_progress: Progress
) -> Loaded:
    """Bring the collection to what the folder's corpus is, and wait until all of it is searchable.

    Needs a worker. Raises FolderUnreadable before anything is sent.
    """
    plan = _plan(folder)
    loaded = Loaded(
        total=len(plan.wanted) + len(plan.same_as) + plan.empty,
        empty=plan.empty,
        same_text=len(plan.same_as),
    )
    known = _remove_others(tenant, collection, plan, loaded)
    _send(tenant, collection, folder, plan, known, loaded, on_progress)
    _wait(tenant, collection, len(plan.wanted), on_progress)
    _note_documents(tenant, collection, plan, loaded)
    return loaded


def _plan(folder: Folder) -> _Plan:
    plan, first = _Plan(), dict[str, str]()
    for passage in folder.passages():
        if passage.is_empty:
            plan.empty += 1
            continue
        digest = hashlib.sha256(passage.content).hexdigest()
        other = first.setdefault(digest, passage.id)
        if other == passage.id:
            plan.wanted[passage.id] = (passage.path, digest)
        else:
            plan.same_as[passage.id] = other
    return plan


def _remove_others(tenant: Tenant, collection: Collection, plan: _Plan, loaded: Loaded) -> set[str]:
    """Delete documents that are not wanted as they are; paths of those that stay."""
    wanted = set(plan.wanted.values())
    with tenant_scope(tenant.id):
        documents = list(_documents(collection).only("id", "path", "sha256", "state", "tenant_id"))
    stay: set[str] = set()
    for document in documents:
        failed = document.state == DocumentState.FAILED
        if (document.path, document.sha256) in wanted and not failed:
            stay.add(document.path)
        else:
            whole = _reload(tenant, document.id)
            if whole is not None:
                services.delete_document(tenant=tenant, document=whole, actor=None)
                loaded.removed += 1
    return stay


def _reload(tenant: Tenant, document_id: uuid.UUID) -> Document | None:
    with tenant_scope(tenant.id):
        return Document.objects.filter(tenant=tenant, id=document_id).first()


def _send(
    tenant: Tenant,
    collection: Collection,
    folder: Folder,
    plan: _Plan,
    known: set[str],
    loaded: Loaded,
    on_progress: Progress,
) -> None:
    fresh = len(plan.wanted) - len(known)
    loaded.unchanged = len(known)
    if not fresh:
        return
    batch = services.open_batch(
        tenant=tenant,
        collection=collection,
        user=None,
        source=Batch.Source.COMMAND,
        expected=fresh,
    )
    for passage in folder.passages():
        if passage.id in plan.wanted and passage.path not in known:
            on_progress("Sent", loaded.sent, fresh)
            _send_one(tenant, collection, passage, batch, loaded)


def _send_one(
    tenant: Tenant, collection: Collection, passage: Passage, batch: Batch, loaded: Loaded
) -> None:
    try:
        services.receive_upload(
            tenant=tenant,
            collection=collection,
            user=None,
            path=passage.path,
            file=BytesIO(passage.content),
            batch=batch,
        )
        loaded.sent += 1
    except DuplicateDocument:
        loaded.unchanged += 1  # sent meanwhile, by a command like this
    except DocumentError as exc:
        loaded.failed[passage.id] = exc.code


def _wait(tenant: Tenant, collection: Collection, total: int, on_progress: Progress) -> None:
    while True:
        with tenant_scope(tenant.id):
            left = _documents(collection).filter(state__in=UNFINISHED).count()
        on_progress("Ready", total - left, total)
        if not left:
            return
        time.sleep(_POLL_S)


def _note_documents(tenant: Tenant, collection: Collection, plan: _Plan, loaded: Loaded) -> None:
    with tenant_scope(tenant.id):
        rows = _documents(collection).values_list("path", "id", "state", "error_code")
        by_path = {path: (id, state, code) for path, id, state, code in rows}
    for id, (path, _) in plan.wanted.items():
        if path not in by_path:
            loaded.failed.setdefault(id, "deleted")
            continue
        document_id, state, code = by_path[path]
        if state == DocumentState.READY:
            loaded.documents[id] = document_id
        else:
            loaded.failed.setdefault(id, code or "failed")
    for id, other in plan.same_as.items():
        if other in loaded.documents:
            loaded.documents[id] = loaded.documents[other]


def _documents(collection: Collection) -> QuerySet[Document]:
    return Document.objects.filter(tenant_id=collection.tenant_id, collection=collection).exclude(
        state=DocumentState.SUPERSEDED
    )


@dataclass
class Written:
    """What became of the questions and judgements."""

    labelled_set: LabelledSet
    questions: int = 0  # with a label, or without an answer
    unanswerable: int = 0
    labels: int = 0
    unlabelled: int = 0  # without either: left out
    unknown_questions: int = 0  # judged, but not among the questions
    unknown_passages: int = 0  # judged relevant, but not among the documents
    without_passages: int = 0  # questions all of whose passages are such


def write_set(
    *,
    tenant: Tenant,
    collection: Collection,
    folder: Folder,
    documents: Mapping[str, uuid.UUID],
) -> Written:
    """Make the labelled set of the collection's name what the folder says, in one transaction.

    Questions that stay keep their results in earlier runs. Raises FolderUnreadable
    or SetNameTaken.
    """
    judged = folder.judgements()
    queries = list(folder.queries())
    with tenant_scope(tenant.id):
        labelled_set = _set_of(collection)
        written = Written(labelled_set)
        written.unknown_questions = len(judged.keys() - {query.id for query in queries})
        grades = {
            query.id: _known(judged[query.id], documents, folder, written)
            for query in queries
            if query.id in judged
        }
        kept = [query for query in queries if _is_kept(query, grades, folder, written)]
        ids = _write_questions(labelled_set, kept)
        _write_labels(labelled_set, {ids[each.key]: grades.get(each.id, {}) for each in kept})
        written.questions = len(kept)
        written.labels = sum(len(grades.get(each.id, {})) for each in kept)
        written.unanswerable = sum(not grades.get(each.id) for each in kept)
    return written


def _set_of(collection: Collection) -> LabelledSet:
    labelled_set, _ = LabelledSet.objects.get_or_create(
        tenant_id=collection.tenant_id,
        name=collection.name,
        defaults={
            "collection": collection,
            "origin": LabelledSet.Origin.COMMAND,
            "nightly": False,
        },
    )
    # Of two commands at once, the second finds what the first has written.
    bool(LabelledSet.objects.select_for_update(no_key=True).filter(id=labelled_set.id))
    if labelled_set.collection_id != collection.id:
        raise SetNameTaken(
            f"Another collection has a labelled set named “{collection.name}”. Give the "
            "collection another name (--collection)."
        )
    return labelled_set


def _known(
    grades: Mapping[str, int],
    documents: Mapping[str, uuid.UUID],
    folder: Folder,
    written: Written,
) -> dict[uuid.UUID, int]:
    """Grades by document; where a part of the corpus was asked for, none if one lies outside."""
    known: dict[uuid.UUID, int] = {}
    for id, grade in grades.items():
        if id in documents:
            known[documents[id]] = max(grade, known.get(documents[id], 0))
    missing = sum(id not in documents for id in grades)
    if missing and folder.first is not None:
        return {}
    written.unknown_passages += missing
    written.without_passages += not known
    return known


def _is_kept(
    query: Query, grades: Mapping[str, Mapping[uuid.UUID, int]], folder: Folder, written: Written
) -> bool:
    if grades.get(query.id):
        return True
    if query.unanswerable and query.id not in grades:
        return True
    written.unlabelled += query.id not in grades
    return False


def _write_questions(labelled_set: LabelledSet, queries: Iterable[Query]) -> dict[str, uuid.UUID]:
    """Questions by key. Those that are not among `queries` go."""
    rows = {
        query.key: LabelledQuestion(
            tenant_id=labelled_set.tenant_id,
            labelled_set=labelled_set,
            key=query.key,
            text=query.text,
            reference_answer=query.answer,
            unanswerable=query.unanswerable,
        )
        for query in queries
    }
    own = LabelledQuestion.objects.filter(
        tenant_id=labelled_set.tenant_id, labelled_set=labelled_set
    )
    own.exclude(key__in=rows).delete()
    LabelledQuestion.objects.bulk_create(
        rows.values(),
        batch_size=_ROWS_AT_ONCE,
        update_conflicts=True,
        unique_fields=["tenant", "labelled_set", "key"],
        update_fields=["text", "reference_answer", "unanswerable"],
    )
    return dict(own.values_list("key", "id"))


def _write_labels(
    labelled_set: LabelledSet, grades: Mapping[uuid.UUID, Mapping[uuid.UUID, int]]
) -> None:
    wanted = {
        (question_id, document_id, grade)
        for question_id, documents in grades.items()
        for document_id, grade in documents.items()
    }
    own = Label.objects.filter(
        tenant_id=labelled_set.tenant_id, question__labelled_set=labelled_set
    )
    there: set[tuple[uuid.UUID, uuid.UUID, int]] = set()
    others: list[int] = []
    rows = own.values_list("id", "question_id", "document_id", "grade")
    for id, question_id, document_id, grade in rows:
        if (question_id, document_id, grade) in wanted:
            there.add((question_id, document_id, grade))
        else:
            others.append(id)
    own.filter(id__in=others).delete()
    Label.objects.bulk_create(
        (
            Label(
                tenant_id=labelled_set.tenant_id,
                question_id=question_id,
                document_id=document_id,
                grade=grade,
            )
            for question_id, document_id, grade in sorted(wanted - there)
        ),
        batch_size=_ROWS_AT_ONCE,
        ignore_conflicts=True,
    )
