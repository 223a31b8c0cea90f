"""How a tenant is searched: one profile in force, the ones before it kept, any of them restorable.

A profile is never changed: each change is another row, and the row in force is swapped under the
tenant's lock. Without one the tenant is searched as the settings say.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction

from apps.retrieval.errors import ProfileInvalid, ProfileUnknown
from apps.retrieval.models import SearchProfile
from apps.retrieval.options import SearchOptions, options_for
from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User

Knob = float | int | str


@dataclass(frozen=True)
class Bounds:
    """What a whole number may be, both ends included."""

    low: int
    high: int


# ef_search, m and ef_construction: README of pgvector. More candidates than ef_search cannot be
# found, so they share its upper end.
BOUNDS = {
    "ef_search": Bounds(1, 1000),
    "leg_candidates": Bounds(1, 1000),
    "rerank_candidates": Bounds(1, 1000),
    "m": Bounds(2, 100),
    "ef_construction": Bounds(4, 1000),
}
STORAGES = ("halfvec", "bit")
KNOBS = (*BOUNDS, "storage", "not_found_below")


def apply_profile(
    *,
    tenant: Tenant,
    user: User | None,
    origin: str,
    changes: Mapping[str, Knob],
    evidence_id: uuid.UUID | None = None,
    recall_goal: float | None = None,
) -> SearchProfile:
    """Search the tenant with the values in force, changed by `changes` (names as in `KNOBS`).

    The profile before stays, and can be restored. Of two at once, the second starts from what
    the first has set. What is in force already is left as it is. Raises ProfileInvalid.
    """
    with transaction.atomic():
        before = _lock(tenant)
        values = _values(options_for(tenant.id)) | dict(changes)
        validate(values)
        if before is not None and _same(before, values, evidence_id):
            return before
        return _put_in_force(
            before,
            SearchProfile(
                tenant=tenant,
                origin=SearchProfile.Origin(origin),
                created_by=user,
                evidence_id=evidence_id,
                recall_goal=recall_goal,
                **values,
            ),
            user,
        )


def restore_profile(*, tenant: Tenant, user: User | None, profile_id: uuid.UUID) -> SearchProfile:
    """Search the tenant as an earlier profile says. Raises ProfileUnknown."""
    with transaction.atomic():
        before = _lock(tenant)
        found = SearchProfile.objects.filter(tenant=tenant, id=profile_id).first()
        if found is None:
            raise ProfileUnknown
        if found.active:
            return found
        again = SearchProfile(
            tenant=tenant,
            origin=SearchProfile.Origin.RESTORED,
            created_by=user,
            evidence_id=found.evidence_id,
            recall_goal=found.recall_goal,
            **{knob: getattr(found, knob) for knob in KNOBS},
        )
        return _put_in_force(before, again, user)


def restore_settings(*, tenant: Tenant, user: User | None) -> None:
    """Search the tenant as the settings say; the profile that was in force is kept."""
    with transaction.atomic():
        before = _lock(tenant)
        if before is not None:
            _retire(before)
            _audit("search_profile.to_settings", tenant, user, before.id)


def profiles_of(tenant_id: uuid.UUID, *, most: int = 50) -> list[SearchProfile]:
    """The tenant's profiles, newest first, the one in force among them."""
    rows = SearchProfile.objects.filter(tenant_id=tenant_id).select_related("created_by")
    return list(rows.order_by("-active", "-created_at")[:most])


def validate(values: Mapping[str, Knob]) -> None:
    """Raise ProfileInvalid, naming the knob and its range, unless all can be searched with."""
    if unknown := sorted(set(values) - set(KNOBS)):
        raise ProfileInvalid(f"There is no knob {unknown[0]!r}. There are: {', '.join(KNOBS)}.")
    for knob, bounds in BOUNDS.items():
        value = values[knob]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not bounds.low <= value <= bounds.high:  # type: ignore[operator]
            raise ProfileInvalid(f"{knob} is a whole number from {bounds.low} to {bounds.high}.")
    if values["storage"] not in STORAGES:
        raise ProfileInvalid(f"storage is one of: {', '.join(STORAGES)}.")
    limit = values["not_found_below"]
    number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if not number or not math.isfinite(float(limit)) or not 0 <= float(limit) <= 1:
        raise ProfileInvalid("not_found_below is a number from 0 to 1.")
    _validate_together(values)


def _validate_together(values: Mapping[str, Knob]) -> None:
    """An HNSW index finds at most ef_search, and needs ef_construction of at least 2 m."""
    if int(values["ef_search"]) < int(values["leg_candidates"]):
        raise ProfileInvalid(
            f"ef_search ({values['ef_search']}) is at least leg_candidates "
            f"({values['leg_candidates']}): raise the one or lower the other."
        )
    if int(values["ef_construction"]) < 2 * int(values["m"]):
        raise ProfileInvalid(
            f"ef_construction ({values['ef_construction']}) is at least twice m ({values['m']}): "
            "raise the one or lower the other."
        )


def _lock(tenant: Tenant) -> SearchProfile | None:
    """Hold the tenant's profiles until the transaction ends; the one in force."""
    Tenant.objects.select_for_update(no_key=True).only("id").get(id=tenant.id)
    return SearchProfile.objects.filter(tenant=tenant, active=True).first()


def _put_in_force(
    before: SearchProfile | None, profile: SearchProfile, user: User | None
) -> SearchProfile:
    if before is not None:
        _retire(before)
    profile.active = True
    profile.save(force_insert=True)
    _audit(f"search_profile.{profile.origin}", profile.tenant, user, profile.id)
    return profile


def _retire(profile: SearchProfile) -> None:
    SearchProfile.objects.filter(tenant_id=profile.tenant_id, id=profile.id, active=True).update(
        active=False
    )


def _values(options: SearchOptions) -> dict[str, Knob]:
    return {knob: getattr(options, knob) for knob in KNOBS}


def _same(
    profile: SearchProfile, values: Mapping[str, Knob], evidence_id: uuid.UUID | None
) -> bool:
    same = all(getattr(profile, knob) == values[knob] for knob in KNOBS)
    return same and profile.evidence_id == evidence_id


def _audit(action: str, tenant: Tenant, user: User | None, subject_id: uuid.UUID) -> None:
    record_audit(
        action=action,
        tenant_id=tenant.id,
        actor_id=user.id if user else None,
        subject_id=subject_id,
    )
