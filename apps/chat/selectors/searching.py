"""Search in one's own history: titles, questions and answers."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from apps.chat.folding import fold, fold_with_places
from apps.chat.models import Conversation, Message
from apps.chat.selectors.conversations import conversations_of
from apps.tenants.access import Access

QUERY_CHARS = 200
WORDS = 8
RESULTS = 30
# Text shown around the first hit.
BEFORE_CHARS, AFTER_CHARS = 50, 130
_SIGNS = re.compile(r"\s*\[\d+\]|[*_`#>|~]+")  # Markdown's, which say nothing in a line of text


@dataclass(frozen=True)
class Piece:
    """A run of text that is a hit as a whole, or is not."""

    text: str
    is_hit: bool


@dataclass(frozen=True)
class Found:
    """A conversation that has every word, with the message that has most of them."""

    conversation: Conversation
    message: Message | None  # None: the words are in the title alone
    title: tuple[Piece, ...]
    snippet: tuple[Piece, ...]


@dataclass(frozen=True)
class SearchResults:
    found: tuple[Found, ...]
    has_more: bool  # there are others, which further words would find


def words_of(query: str) -> tuple[str, ...]:
    """The different words of a query, folded; the first few of a long one."""
    words = fold(query.replace("\x00", "")[:QUERY_CHARS]).split()
    return tuple(dict.fromkeys(words))[:WORDS]


def search_conversations(access: Access, query: str) -> SearchResults:
    """One's own conversations in which every word of `query` occurs, in the tenant's scope.

    Those with all of them in the title come first, then the latest. Nothing for an empty query.
    """
    words = words_of(query)
    if not words:
        return SearchResults((), has_more=False)
    rows = _rows(access, words)
    shown = rows[:RESULTS]
    conversations = conversations_of(access).in_bulk([row[0] for row in shown])
    messages = Message.objects.filter(tenant=access.tenant).in_bulk(
        [row[1] for row in shown if row[1]]
    )
    found = tuple(
        _found(conversations[row[0]], messages.get(row[1]) if row[1] else None, words)
        for row in shown
        if row[0] in conversations
    )
    return SearchResults(found, has_more=len(rows) > RESULTS)


def _rows(access: Access, words: Sequence[str]) -> list[tuple[uuid.UUID, uuid.UUID | None]]:
    """Conversation and best message; one more than are shown."""
    query, values = statement(access, words)
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return list(cursor.fetchall())


def statement(access: Access, words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The search in SQL, and what is bound to it.

    By conversation of this person, so that it costs what their own history costs, whatever the
    tenant has. `strpos` knows no wildcards: a per cent sign is a per cent sign.
    """
    names = [f"word{number}" for number in range(len(words))]
    in_message = [f"strpos(message.folded, %({name})s) > 0" for name in names]
    in_title = [f"strpos(own.folded, %({name})s) > 0" for name in names]
    has = [f"has_{name}" for name in names]
    # Only names of our own making are put together here; what was typed is bound.
    query = f"""
        WITH own AS MATERIALIZED (
            SELECT id, updated_at, chat_fold(title) AS folded FROM chat_conversation
            WHERE tenant_id = %(tenant)s AND user_id = %(user)s AND deleted_at IS NULL
        ), hits AS MATERIALIZED (
            SELECT message.id, message.conversation_id, message.created_at,
                   {", ".join(f"({a})::int AS {b}" for a, b in zip(in_message, has, strict=True))}
            FROM own JOIN chat_message AS message
              ON message.tenant_id = %(tenant)s AND message.conversation_id = own.id
            WHERE {" OR ".join(in_message)}
        ), best AS (
            SELECT conversation_id, {", ".join(f"max({each}) AS {each}" for each in has)},
                   (array_agg(id ORDER BY {" + ".join(has)} DESC, created_at DESC))[1] AS message_id
            FROM hits GROUP BY conversation_id
        )
        SELECT own.id, best.message_id
        FROM own LEFT JOIN best ON best.conversation_id = own.id
        WHERE {" AND ".join(f"({a} = 1 OR {b})" for a, b in zip(has, in_title, strict=True))}
        ORDER BY ({" AND ".join(in_title)}) DESC, own.updated_at DESC, own.id
        LIMIT {RESULTS + 1}
    """  # noqa: S608
    bound = dict(zip(names, words, strict=True))
    return query, {**bound, "tenant": access.tenant.id, "user": access.user.pk}


def _found(conversation: Conversation, message: Message | None, words: Sequence[str]) -> Found:
    text = " ".join(_SIGNS.sub("", message.text).split()) if message else ""
    return Found(conversation, message, mark(conversation.title, words), _snippet(text, words))


def mark(text: str, words: Sequence[str]) -> tuple[Piece, ...]:
    """`text` in pieces, hits apart from the rest."""
    pieces, position = [], 0
    for start, end in _spans(text, words):
        if position < start:
            pieces.append(Piece(text[position:start], is_hit=False))
        pieces.append(Piece(text[start:end], is_hit=True))
        position = end
    if position < len(text):
        pieces.append(Piece(text[position:], is_hit=False))
    return tuple(pieces)


def _snippet(text: str, words: Sequence[str]) -> tuple[Piece, ...]:
    """The text around the first hit; its beginning where no hit can be shown."""
    spans = _spans(text, words)
    first = spans[0][0] if spans else 0
    start = max(0, first - BEFORE_CHARS)
    if start:
        # At a word where there is one: scripts without spaces are cut where they are.
        start = max(start, text.find(" ", start, first) + 1)
    end = min(len(text), first + AFTER_CHARS)
    before, after = "… " if start else "", " …" if end < len(text) else ""
    return mark(f"{before}{text[start:end].strip()}{after}", words)


def _spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where the words stand in `text`, in order and without overlap."""
    folded, places = fold_with_places(text)
    hits: list[tuple[int, int]] = []
    for word in words:
        at = folded.find(word)
        while at >= 0:
            after = at + len(word)
            # Up to the next letter: marks that were folded away belong to the one before.
            end = places[after] if after < len(places) else len(text)
            hits.append((places[at], max(end, places[after - 1] + 1)))
            at = folded.find(word, after)
    merged: list[tuple[int, int]] = []
    for start, end in sorted(hits):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
