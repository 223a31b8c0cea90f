"""Passages that are shown on the search page, and what they are marked as.

Call inside the tenant's scope.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection as Ids
from collections.abc import Sequence
from dataclasses import dataclass, field

from apps.documents.models import Chunk, Document
from apps.documents.selectors import collections_for
from apps.evals.fields import clean, key_of
from apps.evals.matching import Found, Labelled, hits
from apps.evals.models import Label, LabelledQuestion, LabelledSet
from apps.tenants.access import Access


@dataclass
class Marks:
    """What a question of a set is marked with."""

    grades: dict[uuid.UUID, int] = field(default_factory=dict)  # by chunk
    unanswerable: bool = False
    labels: int = 0  # of the question, shown or not


def chunk_of(access: Access, chunk_id: uuid.UUID | None) -> Chunk | None:
    """The chunk with its document, if its collection is open to this person."""
    return next(iter(chunks_of(access, [chunk_id] if chunk_id else [])), None)


def chunks_of(access: Access, chunk_ids: Ids[uuid.UUID]) -> list[Chunk]:
    """Those of the chunks that are open to this person, with their documents, in that order."""
    rows = Chunk.objects.filter(
        tenant_id=access.tenant.id,
        id__in=chunk_ids,
        document__tenant_id=access.tenant.id,
        document__collection__in=collections_for(access).order_by(),
    )
    found = {each.id: each for each in rows.select_related("document")}
    return [found[each] for each in chunk_ids if each in found]


def documents_of(access: Access, document_ids: Ids[uuid.UUID]) -> dict[uuid.UUID, Document]:
    """Those of the documents that are open to this person, with their collections."""
    rows = Document.objects.filter(
        tenant_id=access.tenant.id,
        id__in=document_ids,
        collection__in=collections_for(access).order_by(),
    )
    return {each.id: each for each in rows.select_related("collection")}


def marks_of(labelled_set: LabelledSet, question: str, chunks: Sequence[Chunk]) -> Marks:
    """What the set says of the passages for the question in these words.

    A label on a part of the document says more than one on the whole of it.
    """
    row = _question(labelled_set, clean(question))
    if row is None:
        return Marks()
    labels = [
        Labelled(*values)
        for values in Label.objects.filter(
            tenant_id=labelled_set.tenant_id, question=row
        ).values_list("id", "document_id", "char_start", "char_end", "grade")
    ]
    found = Marks(unanswerable=row.unanswerable, labels=len(labels))
    for chunk in chunks:
        place = Found(chunk.id, chunk.document_id, chunk.char_start, chunk.char_end, 0.0)
        hit = [label for label in labels if hits(label, place)]
        exact = [label for label in hit if label.start is not None] or hit
        if exact:
            found.grades[chunk.id] = max(label.grade for label in exact)
    return found


def _question(labelled_set: LabelledSet, text: str) -> LabelledQuestion | None:
    rows = LabelledQuestion.objects.filter(
        tenant_id=labelled_set.tenant_id, labelled_set=labelled_set
    )
    return rows.filter(key=key_of(text)).first() or (
        rows.filter(text=text).order_by("created_at", "id").first()
    )
