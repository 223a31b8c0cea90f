"""What stands around a passage in its document, for a reader with room to spare.

A passage was cut to a length; the sentence that completes it may be the next one's first. What is
added stands next to the passage in the document and is in no other passage that is given.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from apps.documents.models import Chunk
from apps.retrieval.types import Passage
from apps.tenants.scope import tenant_scope

Range = tuple[uuid.UUID, int, int]  # a document, and from where to where in it, in characters


@dataclass(frozen=True)
class Neighbour:
    """The text before or after a passage, as far as the chunk beside it goes."""

    passage: Passage
    comes_before: bool
    text: str
    heading: str  # of the text, where it is not the passage's own; else ""


def read_neighbours(*, tenant_id: uuid.UUID, passages: Sequence[Passage]) -> list[Neighbour]:
    """What stands next to each of the passages, in the order to add it in.

    What is under a passage's own headings goes first; then by the passages' rank, what follows
    before what leads. No text comes twice. One short scope; there is none for a passage whose
    document is gone.
    """
    if not passages:
        return []
    with tenant_scope(tenant_id):
        beside = _read_beside(tenant_id, [passage.chunk_id for passage in passages])
    sides = [
        (passage, chunk, comes_before)
        for passage in passages
        for comes_before in (False, True)
        if (chunk := beside.get((passage.chunk_id, comes_before))) is not None
    ]
    sides.sort(key=lambda side: side[1].heading_path != side[0].heading_path)
    taken: list[Range] = [(each.document_id, each.char_start, each.char_end) for each in passages]
    found = []
    for passage, chunk, comes_before in sides:
        start, end = _free(passage, chunk, comes_before, taken)
        text = chunk.text[start - chunk.char_start : end - chunk.char_start].strip()
        if end <= start or not text:
            continue
        taken.append((chunk.document_id, start, end))
        heading = chunk.heading_path if chunk.heading_path != passage.heading_path else ""
        found.append(Neighbour(passage, comes_before, text, heading))
    return found


def _free(
    passage: Passage, chunk: Chunk, comes_before: bool, taken: Sequence[Range]
) -> tuple[int, int]:
    """The part of the chunk next to the passage that is in nothing given; may be empty.

    Neighbouring chunks overlap by some tokens, and the one beyond may be given as well.
    """
    if comes_before:
        start, end = chunk.char_start, min(chunk.char_end, passage.char_start)
    else:
        start, end = max(chunk.char_start, passage.char_end), chunk.char_end
    for document, first, last in taken:
        if document == chunk.document_id and first < end and start < last:
            start, end = (max(start, last), end) if comes_before else (start, min(end, first))
    return start, end


def _read_beside(
    tenant_id: uuid.UUID, chunk_ids: Sequence[uuid.UUID]
) -> dict[tuple[uuid.UUID, bool], Chunk]:
    """The chunks before (True) and after (False) each, of the same document and generation."""
    own = Chunk.objects.filter(tenant_id=tenant_id, id__in=chunk_ids).values_list(
        "id", "document_id", "generation", "ordinal"
    )
    wanted = {
        (chunk, step < 0): (document, generation, ordinal + step)
        for chunk, document, generation, ordinal in own
        for step in (1, -1)
    }
    where = Q(pk__in=())
    for document, generation, ordinal in set(wanted.values()):
        if ordinal >= 0:
            where |= Q(document_id=document, generation=generation, ordinal=ordinal)
    found = Chunk.objects.filter(where, tenant_id=tenant_id)
    at = {(chunk.document_id, chunk.generation, chunk.ordinal): chunk for chunk in found}
    return {side: at[place] for side, place in wanted.items() if place in at}
