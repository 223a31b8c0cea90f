"""What may be cached: what a tenant has decided, and why a question is not looked up at all."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.db.models import F, QuerySet

from apps.gateway.caching.types import Cacheable
from apps.gateway.models import CachedResponse, CachePolicy
from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope

# Every reason there is, as the ledger keeps it and as people read it.
BYPASSES: Mapping[str, str] = {
    "switched_off": "caching is switched off on this site",
    "opted_out": "caching was declined, by the tenant or for this request",
    "asked_again": "a new answer was asked for",
    "going_on": "an answer that had broken off was gone on from",
    "history": "a follow-up question: its answer depends on the conversation",
    "sampled": "the answer is drawn at random (a temperature without a seed)",
    "tools": "the model may call tools",
    "too_large": "the question is too long",
    "unfit": "the question cannot be stored",
    "other": "for another reason",
}
THRESHOLD_MIN, THRESHOLD_MAX = 0.5, 1.0


@dataclass(frozen=True)
class Policy:
    """A tenant's; the defaults are those of a tenant that has decided nothing."""

    enabled: bool = True
    semantic: bool = False
    semantic_threshold: float = 0.97
    epoch: int = 0

    @classmethod
    def of_row(
        cls, enabled: bool | None, semantic: bool, semantic_threshold: float, epoch: int
    ) -> Policy:
        """Of the table's columns, all None where there is no row."""
        return cls() if enabled is None else cls(enabled, semantic, semantic_threshold, epoch)


def bypass_reason(cacheable: Cacheable) -> str:
    """Why the question is not looked up, a word of BYPASSES; "" where it is."""
    if cacheable.bypass:
        word = cacheable.bypass.replace(" ", "_")
        return word if word in BYPASSES else "other"
    return "" if settings.RESPONSE_CACHE_TTL_S > 0 else "switched_off"


def policy_of(tenant_id: uuid.UUID) -> Policy:
    row = CachePolicy.objects.filter(tenant_id=tenant_id).first()
    if row is None:
        return Policy()
    return Policy(row.enabled, row.semantic, row.semantic_threshold, row.epoch)


def set_policy(
    *,
    tenant: Tenant,
    actor: User | None,
    enabled: bool,
    semantic: bool,
    semantic_threshold: float,
) -> None:
    """Decide about the tenant's cache; switching it off forgets what it holds."""
    with tenant_scope(tenant.id):
        CachePolicy.objects.update_or_create(
            tenant=tenant,
            defaults={
                "enabled": enabled,
                "semantic": semantic,
                "semantic_threshold": semantic_threshold,
            },
        )
        _audit("cache.changed", tenant, actor)
        if not enabled:
            _forget(tenant)


def forget_everything(*, tenant: Tenant, actor: User | None) -> None:
    """No answer of before is given again, those that are being written now included."""
    with tenant_scope(tenant.id):
        CachePolicy.objects.get_or_create(tenant=tenant)
        _forget(tenant)
        _audit("cache.forgotten", tenant, actor)


def _forget(tenant: Tenant) -> None:
    CachePolicy.objects.filter(tenant=tenant).update(epoch=F("epoch") + 1)
    forget(CachedResponse.objects.filter(tenant=tenant))


def forget(answers: QuerySet[CachedResponse]) -> None:
    """Locked in one order, for documents of two collections may be deleted at the same time."""
    ids = list(answers.order_by("id").select_for_update().values_list("id", flat=True))
    answers.filter(id__in=ids).delete()


def _audit(action: str, tenant: Tenant, actor: User | None) -> None:
    record_audit(
        action=action,
        tenant_id=tenant.id,
        actor_id=actor.id if actor else None,
        subject_id=tenant.id,
    )
