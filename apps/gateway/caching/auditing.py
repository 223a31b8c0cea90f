"""Answers that were given to questions of the same meaning, looked at one by one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet

from apps.gateway.caching import store
from apps.gateway.models import SemanticHit
from apps.telemetry.services import record_audit
from apps.tenants.models import ApiKey, Tenant, User
from apps.tenants.scope import tenant_scope

VERDICTS = ("", "right", "wrong")


@dataclass(frozen=True)
class Judged:
    """How many hits there are, and what people have said of them."""

    hits: int
    right: int
    wrong: int

    @property
    def looked_at(self) -> int:
        return self.right + self.wrong


def hits_of(tenant_id: uuid.UUID) -> QuerySet[SemanticHit]:
    """Newest first. In the tenant's scope."""
    return SemanticHit.objects.filter(tenant_id=tenant_id).order_by("-at", "-id")


def judged(tenant_id: uuid.UUID) -> Judged:
    """In the tenant's scope."""
    return Judged(
        **hits_of(tenant_id)
        .order_by()
        .aggregate(
            hits=Count("id"),
            right=Count("id", filter=Q(verdict="right")),
            wrong=Count("id", filter=Q(verdict="wrong")),
        )
    )


def names_of(tenant_id: uuid.UUID, hits: Iterable[SemanticHit]) -> dict[int, str]:
    """Who asked each hit, as its tenant knows them, by the hit's id."""
    hits = list(hits)
    people = dict(
        User.objects.filter(id__in={hit.user_id for hit in hits}).values_list("id", "email")
    )
    keys = dict(
        ApiKey.objects.filter(tenant_id=tenant_id, id__in={hit.key_id for hit in hits}).values_list(
            "id", "name"
        )
    )
    return {hit.id: _whose(hit, people, keys) for hit in hits}


def _whose(hit: SemanticHit, people: dict[int, str], keys: dict[uuid.UUID, str]) -> str:
    if hit.key_id is not None:
        return f"Key {keys.get(hit.key_id, 'that is gone')}"
    if hit.user_id is not None:
        return people.get(hit.user_id, "Somebody who is gone")
    return "Nobody in particular"


def judge(*, tenant: Tenant, actor: User | None, hit_id: int, verdict: str) -> SemanticHit | None:
    """Call a hit right or wrong, or take that back (""); None where there is no such hit.

    Of a wrong one the two questions never share an answer again, and the answer that was given
    is forgotten: taking it back lets them, once that question has been answered anew.
    """
    with tenant_scope(tenant.id):
        hit = SemanticHit.objects.select_for_update().filter(tenant=tenant, id=hit_id).first()
        if hit is None:
            return None
        if verdict == "wrong":
            store.drop(tenant.id, hit.response_id)
        hit.verdict = verdict
        hit.save(update_fields=["verdict"])
        record_audit(
            action=f"cache.hit_{verdict or 'undecided'}",
            tenant_id=tenant.id,
            actor_id=actor.id if actor else None,
            subject_id=hit.id,
        )
    return hit
