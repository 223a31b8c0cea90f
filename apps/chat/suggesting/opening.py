"""Questions for an empty chat: one a document, from the newest of the collections picked."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable

from django.db.models import F
from django.db.models.functions import Left

from apps.chat.suggesting.wording import Asked, about_heading, about_row
from apps.documents.models import Chunk
from apps.documents.selectors import searchable_documents
from apps.retrieval.analysis import detect_language

DOCUMENTS = 12  # looked at, the newest first
CHUNKS = 24  # of each, from the first
_TEXT_CHARS = 400  # tell a text's language
SEPARATOR = " › "

Row = tuple[uuid.UUID, str, str]  # document, heading path, beginning of the text


def suggest_questions(
    tenant_id: uuid.UUID, collection_ids: Collection[uuid.UUID], limit: int = 3
) -> list[str]:
    """Questions that the newest documents answer, those that read best, one a document."""
    newest = searchable_documents(tenant_id, collection_ids).order_by("-created_at", "id")
    ids = list(newest.values_list("id", flat=True)[:DOCUMENTS])
    chunks = (
        Chunk.objects.filter(
            tenant_id=tenant_id,
            document_id__in=ids,
            generation=F("document__generation"),
            ordinal__lt=CHUNKS,
        )
        .annotate(beginning=Left("text", _TEXT_CHARS))
        .order_by("ordinal")
        .values_list("document_id", "heading_path", "beginning")
    )
    by_document: dict[uuid.UUID, list[Row]] = {each: [] for each in ids}
    for row in chunks:
        by_document[row[0]].append(row)
    best = [asked for each in ids if (asked := _best_of(by_document[each])) is not None]
    best.sort(key=lambda asked: -asked.worth)  # stable: the newest of equals stays first
    return list(dict.fromkeys(asked.text for asked in best))[:limit]


def _best_of(rows: Iterable[Row]) -> Asked | None:
    """The first of the questions that read best."""
    found = [asked for _, path, text in rows for asked in _asked_of(path, text)]
    return max(found, key=lambda asked: asked.worth, default=None)


def _asked_of(path: str, text: str) -> Iterable[Asked]:
    language = detect_language(f"{path}\n{text}")
    title = path.rsplit(SEPARATOR, 1)[-1]
    of_row = about_row(text.split("\n", 1)[0], language or "en")
    asked = about_heading(title, language) if title else None
    yield from (each for each in (asked, of_row) if each is not None)
