"""Limits on documents and storage: of the tenant, of the person who sends, of the key.

A document counts once in all its versions, and the bytes of every version count, for all of them
are kept: also those of documents that failed, until they are deleted. Decrypted copies and page
images do not count. Triggers keep the counts (migration 0009), so that they are right however
documents come and go.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from apps.documents.errors import QuotaExceeded
from apps.documents.models import Document, DocumentUse
from apps.tenants.amounts import format_amount
from apps.tenants.limits import STOCK_MEASURES, LimitRule, UseKey, limits_for
from apps.tenants.models import Measure, Subject

_WHO = {
    Subject.TENANT: "Your organisation may keep",
    Subject.MEMBER: "You may keep",
    Subject.KEY: "What is sent with this key may be",
}
_WHAT_TO_DO = "Delete documents that are not needed, or ask a tenant manager to raise the limit."


@dataclass(frozen=True)
class Addition:
    """What a file adds, and in whose name."""

    tenant_id: uuid.UUID
    size_bytes: int
    documents: int = 1  # 0: it is the next version of one that counts already
    user_id: int | None = None
    key_id: uuid.UUID | None = None


def addition_of(document: Document, *, is_new: bool) -> Addition:
    return Addition(
        document.tenant_id,
        document.size_bytes,
        int(is_new),
        document.uploaded_by_id,
        document.key_id,
    )


def refuse_without_room(addition: Addition) -> None:
    """Before anything is kept: raises QuotaExceeded when it would not fit as things stand."""
    _refuse(addition, already_counted=False)


def refuse_overrun(addition: Addition) -> None:
    """After the row was inserted, in its transaction: raises QuotaExceeded, to roll it back.

    The trigger that has counted it holds the counts, so of many at once each sees those before.
    """
    _refuse(addition, already_counted=True)


def stock_of(tenant_id: uuid.UUID) -> Mapping[UseKey, int]:
    """What a tenant, each member and each key has of documents and of bytes."""
    return _figures(DocumentUse.objects.filter(tenant_id=tenant_id))


def _refuse(addition: Addition, *, already_counted: bool) -> None:
    rules = list(_rules(addition))
    if not rules:
        return
    used = _figures(
        DocumentUse.objects.filter(
            tenant_id=addition.tenant_id, subject_id__in={rule.subject_id for rule in rules}
        )
    )
    for rule in rules:
        added = addition.documents if rule.measure == Measure.DOCUMENTS else addition.size_bytes
        before = used.get((rule.subject, rule.subject_id, rule.measure), 0)
        after = before if already_counted else before + added
        if added and after > rule.amount:
            raise QuotaExceeded(_words(rule, addition), measure=rule.measure)


def _rules(addition: Addition) -> Iterator[LimitRule]:
    rules = limits_for(addition.tenant_id, user_id=addition.user_id, key_id=addition.key_id)
    yield from (rule for rule in rules if rule.measure in STOCK_MEASURES)


def _figures(uses: Iterable[DocumentUse]) -> dict[UseKey, int]:
    found: dict[UseKey, int] = {}
    for use in uses:
        subject = Subject(use.subject)
        found[subject, use.subject_id, Measure.DOCUMENTS] = use.documents
        found[subject, use.subject_id, Measure.STORAGE_BYTES] = use.bytes
    return found


def _words(rule: LimitRule, addition: Addition) -> str:
    """The limit and no use: how much others keep is theirs."""
    if not rule.amount:
        return f"{_WHO[rule.subject]} no documents at all. Ask a tenant manager for room."
    allowed = f"{_WHO[rule.subject]} {format_amount(rule.measure, rule.amount)}"
    if rule.measure == Measure.DOCUMENTS:
        return f"{allowed}, and there is no room for another. {_WHAT_TO_DO}"
    size = format_amount(Measure.STORAGE_BYTES, addition.size_bytes)
    return f"{allowed}, and there is no room for this file's {size}. {_WHAT_TO_DO}"
