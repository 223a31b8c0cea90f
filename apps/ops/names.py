"""What people, keys, collections and organisations are called on pages of figures.

A tenant's managers read its own names. Operations read the names of organisations alone: people,
keys and collections of a tenant are identifiers to them, as on every page of theirs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from apps.documents.models import Collection as DocumentCollection
from apps.gateway.ledger.measures import SEVERAL
from apps.gateway.types import Source
from apps.tenants.models import ApiKey, Membership, Tenant

_SOURCES: Mapping[str, str] = {
    Source.CHAT: "Chat",
    Source.API: "HTTP API",
    Source.INGESTION: "Reading documents",
    Source.EVALUATION: "Evaluation",
    Source.COMMAND: "Commands",
}
_HOPS: Mapping[str, str] = {
    "generate": "Writing answers",
    "rewrite": "Rewriting follow-ups",
    "title": "Titling conversations",
    "embed": "Embedding",
    "rerank": "Reranking",
}
_WORDS: Mapping[str, Mapping[str, str]] = {
    "source": _SOURCES,
    "hop": _HOPS,
    "upstream": {"": "None: from a cache, or none could be reached"},
}
_SHORT = 8  # characters of an identifier that tell lines of a page apart


@dataclass(frozen=True)
class Name:
    """What a line of a table is called. `given`: by a person, so it may hold anything."""

    text: str
    given: bool = False
    badge: str = ""  # what has become of it
    id: str = ""  # shown small, where the words do not tell it from others
    whole_id: str = ""  # where `id` is the beginning of it: for a file

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.text} {self.whole_id or self.id}".rstrip()


class Names(Protocol):
    """Names by the keys of a ledger's dimension, each kind by one query."""

    def of(self, dimension: str, keys: Collection[str]) -> dict[str, Name]: ...


class TenantNames:
    """For a tenant's managers. Call inside the tenant's scope: collections are under its lock."""

    def __init__(self, tenant_id: uuid.UUID) -> None:
        self._tenant_id = tenant_id

    def of(self, dimension: str, keys: Collection[str]) -> dict[str, Name]:
        readers: dict[str, Callable[[Collection[str]], dict[str, Name]]] = {
            "user": self._people,
            "key": self._keys,
            "collection": self._collections,
        }
        reader = readers.get(dimension)
        return reader(keys) if reader else _plain(dimension, keys)

    def _people(self, keys: Collection[str]) -> dict[str, Name]:
        # An address is shown as long as its owner is a member; it may be a new employer's later.
        ids = [int(key) for key in keys if key.isdecimal()]
        rows = Membership.objects.filter(tenant_id=self._tenant_id, user_id__in=ids)
        known = {
            str(user_id): Name(email, given=True)
            for user_id, email in rows.values_list("user_id", "user__email")
        }
        gone = {key: Name("Someone who has left", id=f"no. {key}") for key in keys if key}
        return {"": Name("No person")} | gone | known

    def _keys(self, keys: Collection[str]) -> dict[str, Name]:
        rows = ApiKey.objects.filter(tenant_id=self._tenant_id, id__in=_uuids(keys))
        known = {
            str(key_id): Name(name, given=True, badge="revoked" if revoked_at else "")
            for key_id, name, revoked_at in rows.values_list("id", "name", "revoked_at")
        }
        gone = {key: _identified("A deleted key", key) for key in keys if key}
        return gone | known | _WITHOUT_A_KEY

    def _collections(self, keys: Collection[str]) -> dict[str, Name]:
        rows = DocumentCollection.objects.filter(tenant_id=self._tenant_id, id__in=_uuids(keys))
        known = {
            str(collection_id): Name(name, given=True)
            for collection_id, name in rows.values_list("id", "name")
        }
        gone = {key: _identified("A deleted collection", key) for key in keys if key}
        return gone | known | _NO_ONE_COLLECTION


class OpsNames:
    """For operations: organisations by name, everything of theirs by identifier."""

    def of(self, dimension: str, keys: Collection[str]) -> dict[str, Name]:
        if dimension == "tenant":
            return self._tenants(keys)
        if dimension == "user":
            return {key: Name(f"Person {key}" if key else "No person") for key in keys}
        if dimension == "key":
            return {key: _identified("Key", key) for key in keys} | _WITHOUT_A_KEY
        if dimension == "collection":
            return {key: _identified("Collection", key) for key in keys} | _NO_ONE_COLLECTION
        return _plain(dimension, keys)

    def _tenants(self, keys: Collection[str]) -> dict[str, Name]:
        rows = Tenant.objects.filter(id__in=_uuids(keys)).values_list("id", "name")
        known = {str(tenant_id): Name(name, given=True) for tenant_id, name in rows}
        return {key: _identified("A deleted organisation", key) for key in keys} | known


def _identified(words: str, identifier: str) -> Name:
    return Name(words, id=identifier[:_SHORT], whole_id=identifier)


_WITHOUT_A_KEY = {"": Name("Without a key")}
_NO_ONE_COLLECTION = {
    "": Name("No collection"),
    SEVERAL: Name("Several collections at once"),
}


def hop_words(hop: str) -> str:
    """What a call was made to do."""
    return _HOPS.get(hop, hop)


def _plain(dimension: str, keys: Iterable[str]) -> dict[str, Name]:
    words = _WORDS.get(dimension, {})
    return {key: Name(words.get(key, key) or "Not known") for key in keys}


def _uuids(keys: Iterable[str]) -> list[uuid.UUID]:
    found = []
    for key in keys:
        try:
            found.append(uuid.UUID(key))
        except ValueError:
            continue  # "" and "several"
    return found
