"""Shared conversations: one's own shares, and what a reader sees of another's.

The answers are shown as they were given to who asked. Sources stay under the reader's own rights:
one that is not open to them has neither name nor place, and passages quoted from it are not shown.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.db.models import Exists, OuterRef, QuerySet
from django.urls import reverse

from apps.chat.models import Citation, Conversation, Message, MessageRole, Share
from apps.chat.selectors.branches import Branches, branches_of, shown_path
from apps.chat.selectors.citations import citations_by_message
from apps.chat.selectors.threads import html_of, state_of
from apps.documents.models import Document
from apps.documents.selectors import collections_for
from apps.tenants.access import RIGHTS, Access, Right
from apps.tenants.models import Membership

NEAREST = 3
_CHATTING_ROLES = [role for role, rights in RIGHTS.items() if Right.CHAT in rights]


@dataclass(frozen=True)
class SharedSource:
    """A source of a shared answer, as far as the reader may know of it."""

    id: uuid.UUID
    marker: int
    cited: bool
    is_open: bool
    url: str
    document_name: str = ""
    heading_path: str = ""
    page_first: int = 0
    page_last: int = 0
    score: float = 0.0


@dataclass(frozen=True)
class SharedMessage:
    """A question or an answer of a shared conversation."""

    message: Message
    html: str  # answers only, sanitised
    state: str
    sources: tuple[SharedSource, ...] = ()
    is_withheld: bool = False  # quotes passages that are not open to the reader

    @property
    def is_answer(self) -> bool:
        return self.message.role == MessageRole.ANSWER

    @property
    def shown_sources(self) -> tuple[SharedSource, ...]:
        """Those that the answer used; where nothing was found, the nearest that may be opened."""
        if self.message.kind == "not_found":
            return tuple(source for source in self.sources if source.is_open)[:NEAREST]
        return tuple(source for source in self.sources if source.cited)


def shares_of(access: Access) -> QuerySet[Share]:
    """One's own shares that stand, the latest first."""
    own = _standing(access).filter(user=access.user, conversation__user=access.user)
    return own.select_related("conversation").order_by("-created_at", "id")


def share_of(access: Access, conversation: Conversation) -> Share | None:
    """The share of one of one's own conversations, or None."""
    return shares_of(access).filter(conversation=conversation).first()


def get_share(access: Access, share_id: uuid.UUID) -> Share | None:
    """A share that members may read, or None: revoked, deleted, or its owner has left."""
    still_here = Membership.objects.filter(
        tenant=access.tenant, user=OuterRef("user"), role__in=_CHATTING_ROLES
    )
    found = _standing(access).filter(Exists(still_here), id=share_id)
    return found.select_related("conversation", "user").first()


def current_leaf(access: Access, conversation: Conversation) -> uuid.UUID | None:
    """The last message of the branch that is shown; None where nothing was asked."""
    path = shown_path(branches_of(access.tenant.id, conversation.id), conversation.leaf_id)
    return path[-1] if path else None


def shared_thread(access: Access, share: Share) -> list[SharedMessage]:
    """What a reader sees: the branch that was shared, up to its last message then.

    Five queries, however long it is.
    """
    branches = branches_of(access.tenant.id, share.conversation_id)
    shown = _shown(branches, share.leaf_id)
    found = Message.objects.filter(tenant=access.tenant, id__in=shown).in_bulk()
    citations = citations_by_message(access.tenant.id, shown)
    opened = _open_documents(access, [c for each in citations.values() for c in each])
    return [
        _shared_message(access, share, found[key], citations.get(key, ()), opened)
        for key in shown
        if key in found
    ]


def get_shared_citation(access: Access, share: Share, citation_id: uuid.UUID) -> Citation | None:
    """A source of a message that `share` shows, or None."""
    branches = branches_of(access.tenant.id, share.conversation_id)
    shown = _shown(branches, share.leaf_id)
    found = Citation.objects.filter(tenant=access.tenant, id=citation_id, message_id__in=shown)
    return found.select_related("document", "message").first()


def _standing(access: Access) -> QuerySet[Share]:
    return Share.objects.filter(
        tenant=access.tenant, revoked_at=None, conversation__deleted_at=None
    )


def _shown(branches: Branches, leaf_id: uuid.UUID) -> list[uuid.UUID]:
    """From the first question to `leaf_id`, with what stood beside an answer to compare."""
    if leaf_id not in branches:
        return []
    entries = (branches.entry_of(branches.node(key)) for key in branches.path_to(leaf_id))
    return [each.id for entry in entries for each in entry]


def _open_documents(access: Access, citations: Iterable[Citation]) -> set[uuid.UUID]:
    wanted = {each.document_id for each in citations if each.document_id}
    opened = Document.objects.filter(
        tenant=access.tenant, id__in=wanted, collection__in=collections_for(access).order_by()
    )
    return set(opened.values_list("id", flat=True))


def _shared_message(
    access: Access,
    share: Share,
    message: Message,
    citations: Iterable[Citation],
    opened: set[uuid.UUID],
) -> SharedMessage:
    if message.role != MessageRole.ANSWER:
        return SharedMessage(message, "", state_of(message))
    sources = tuple(_source(access, share, each, opened) for each in citations)
    # Word for word from documents, so it is as closed as they are.
    cited = [source for source in sources if source.cited]
    withheld = message.kind == "quoted" and not (cited and all(s.is_open for s in cited))
    urls = {source.marker: (str(source.id), source.url) for source in sources}
    html = "" if withheld else html_of(message, urls)
    return SharedMessage(message, html, state_of(message), sources, withheld)


def _source(
    access: Access, share: Share, citation: Citation, opened: set[uuid.UUID]
) -> SharedSource:
    url = reverse("chat:shared_citation", args=[access.tenant.slug, share.id, citation.id])
    closed = SharedSource(
        citation.id, citation.marker, cited=citation.cited, is_open=False, url=url
    )
    if citation.document_id not in opened:
        return closed
    return replace(
        closed,
        is_open=True,
        document_name=citation.document_name,
        heading_path=citation.heading_path,
        page_first=citation.page_first,
        page_last=citation.page_last,
        score=citation.score,
    )
