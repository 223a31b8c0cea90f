"""Putting what a curve measured in force."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.utils import timezone

from apps.evals.models import TuneRun
from apps.evals.tuning.builds import BUILDER
from apps.evals.tuning.errors import CurveStale, CurveUnfinished, PointUnknown
from apps.evals.tuning.proposing import changes_to
from apps.retrieval.models import SearchProfile
from apps.retrieval.options import options_for
from apps.retrieval.profiles import apply_profile
from apps.retrieval.selectors import active_index
from apps.tenants.models import Tenant, User
from worker.enqueue import wake


def apply_curve(
    *, tenant: Tenant, user: User | None, curve: TuneRun, point: int | None = None
) -> SearchProfile:
    """Search the tenant as the curve proposes, or as its `point` (a place in `points`) does.

    The profile before stays and can be restored. Where the setting needs another HNSW index, the
    one there is answers until that is built. Raises CurveUnfinished, CurveStale, PointUnknown,
    and ProfileInvalid where what is in force now does not go with it.
    """
    if curve.state != TuneRun.State.DONE:
        raise CurveUnfinished
    index = active_index(tenant.id)
    if index is None or index.id != curve.index_id:
        raise CurveStale
    changes = dict(curve.proposal["changes"])
    if point is not None:
        if not 0 <= point < len(curve.points) or curve.points[point]["kind"] == "exact":
            raise PointUnknown
        changes = changes_to(curve.points[point], options_for(tenant.id))
    elif not changes:
        raise PointUnknown
    with transaction.atomic():
        origin = SearchProfile.Origin
        profile = apply_profile(
            tenant=tenant,
            user=user,
            origin=origin.TUNED if point is None else origin.MANUAL,
            changes=changes,
            evidence_id=curve.id,
            recall_goal=curve.recall_goal if point is None else None,
        )
        TuneRun.objects.filter(tenant=tenant, id=curve.id).update(applied_at=timezone.now())
        wake(BUILDER)
    return profile


def curves_of(tenant_id: uuid.UUID, *, most: int = 20) -> list[TuneRun]:
    """The tenant's curves, newest first."""
    rows = TuneRun.objects.filter(tenant_id=tenant_id).select_related("created_by")
    return list(rows.order_by("-created_at")[:most])


def get_curve(tenant_id: uuid.UUID, curve_id: uuid.UUID) -> TuneRun | None:
    """One of the tenant's curves."""
    rows = TuneRun.objects.filter(tenant_id=tenant_id, id=curve_id)
    return rows.select_related("created_by").first()
