"""Thumbs of the chat that wait to be reviewed. Call inside the tenant's scope.

A proposal is shown to who manages the corpus with the question as it was searched, the comment and
the passages that the answer was given: not with the conversation around it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from apps.chat.models import Citation
from apps.documents.models import Collection
from apps.documents.selectors import collections_for
from apps.evals.models import LabelledSet, Proposal
from apps.evals.places import text_between
from apps.evals.selectors.marks import documents_of
from apps.evals.selectors.runs import sets_for
from apps.evals.services import Marked
from apps.tenants.access import Access

PROPOSALS_SHOWN = 20
_TEXT_CHARS_SHOWN = 3000


@dataclass(frozen=True)
class ProposedPassage:
    """A passage that an answer was given. `text` is empty where it is gone or not open."""

    marker: int  # the [n] of the answer
    cited: bool
    document_id: uuid.UUID | None
    collection_id: uuid.UUID | None
    document_name: str
    page_first: int
    page_last: int
    start: int
    end: int
    text: str

    @property
    def place(self) -> Marked | None:
        if self.document_id is None or self.collection_id is None or not self.text:
            return None
        return Marked(self.document_id, self.start, self.end)


def proposals(tenant_id: uuid.UUID, state: str) -> QuerySet[Proposal]:
    """Those in `state`, newest first; without answers of conversations that were deleted."""
    return _shown(tenant_id).filter(state=state).order_by("-created_at", "-id")


def get_proposal(tenant_id: uuid.UUID, proposal_id: uuid.UUID) -> Proposal | None:
    return _shown(tenant_id).filter(id=proposal_id).first()


def _shown(tenant_id: uuid.UUID) -> QuerySet[Proposal]:
    return Proposal.objects.filter(tenant_id=tenant_id, answer__conversation__deleted_at=None)


def passages_of(access: Access, proposal: Proposal) -> list[ProposedPassage]:
    """The passages of a proposal's answer, with their text under this person's rights."""
    citations = list(
        Citation.objects.filter(tenant_id=access.tenant.id, message_id=proposal.answer_id).order_by(
            "marker"
        )
    )
    documents = documents_of(access, {each.document_id for each in citations if each.document_id})
    texts = text_between(
        access.tenant.id,
        [
            (
                each.document_id,
                each.char_start,
                min(each.char_end, each.char_start + _TEXT_CHARS_SHOWN),
            )
            for each in citations
            if each.document_id in documents
        ],
    )
    by_start = {(document_id, start): text for (document_id, start, _), text in texts.items()}
    return [
        ProposedPassage(
            marker=each.marker,
            cited=each.cited,
            document_id=each.document_id,
            collection_id=documents[each.document_id].collection_id
            if each.document_id in documents
            else None,
            document_name=each.document_name,
            page_first=each.page_first,
            page_last=each.page_last,
            start=each.char_start,
            end=each.char_end,
            text=by_start.get((each.document_id, each.char_start), "") if each.document_id else "",
        )
        for each in citations
    ]


def collections_of(access: Access, passages: Sequence[ProposedPassage]) -> list[Collection]:
    """The collections that the passages are in; where none was found, all that are open."""
    ids = {each.collection_id for each in passages if each.collection_id}
    rows = collections_for(access)
    return list(rows.filter(id__in=ids) if ids else rows)


def sets_of(access: Access, collections: Sequence[Collection]) -> list[LabelledSet]:
    """Sets that could take a proposal: those of the collections."""
    return list(sets_for(access).filter(collection__in=collections))
