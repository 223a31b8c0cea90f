"""What a person may tell a build that is under way."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from apps.retrieval.builds import errors
from apps.retrieval.builds.starting import TEND_TASK
from apps.retrieval.models import IndexBuild
from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User
from worker.enqueue import wake

State = IndexBuild.State
# A question that began before the switch is answered from the index it began with.
GRACE_S = 120.0


def pause_build(*, tenant: Tenant, user: User | None, build_id: uuid.UUID) -> None:
    """Stop adding to the index, within a batch. Raises NotNow."""
    _change(tenant, user, build_id, [State.BUILDING], "index.build_paused", state=State.PAUSED)


def resume_build(*, tenant: Tenant, user: User | None, build_id: uuid.UUID) -> None:
    """Go on where it was. Raises NotNow."""
    _change(tenant, user, build_id, [State.PAUSED], "index.build_resumed", state=State.BUILDING)


def throttle_build(
    *, tenant: Tenant, user: User | None, build_id: uuid.UUID, passages_per_s: float | None
) -> None:
    """Add so many passages a second at most; None: as fast as it goes. Raises NotNow."""
    states = [State.BUILDING, State.PAUSED, State.READY, State.SWITCHED, State.BACK]
    _change(tenant, user, build_id, states, "index.build_throttled", passages_per_s=passages_per_s)


def compare_again(*, tenant: Tenant, user: User | None, build_id: uuid.UUID) -> None:
    """Ask all gates anew. Raises NotNow."""
    states = [State.READY, State.BACK]
    _change(tenant, user, build_id, states, "index.compared_again", gates={})


def cancel_build(*, tenant: Tenant, user: User | None, build_id: uuid.UUID) -> None:
    """Give the new index up, and drop it. Raises NotNow where it is in force."""
    states = [State.BUILDING, State.PAUSED, State.READY]
    _change(tenant, user, build_id, states, "index.build_cancelled", state=State.DROPPING)


def drop_now(*, tenant: Tenant, user: User | None, build_id: uuid.UUID) -> None:
    """Drop the index that is kept but not in force before its time. Raises NotNow."""
    _change(
        tenant,
        user,
        build_id,
        [State.SWITCHED, State.BACK],
        "index.drop_asked",
        keep_until=timezone.now(),
    )


def begin_dropping(build: IndexBuild) -> bool:
    """The index that is not in force is due: from now on there is no way back to it."""
    kept = IndexBuild.objects.filter(
        Q(switched_at__lt=timezone.now() - timedelta(seconds=GRACE_S)),
        tenant_id=build.tenant_id,
        id=build.id,
        state__in=[State.SWITCHED, State.BACK],
        keep_until__lte=timezone.now(),
    )
    return bool(kept.update(state=State.DROPPING, fence=F("fence") + 1, lease_expires_at=None))


def _change(
    tenant: Tenant,
    user: User | None,
    build_id: uuid.UUID,
    states: Sequence[str],
    action: str,
    **values: object,
) -> None:
    """Compare and set; whoever works on it notices at the next batch."""
    with transaction.atomic():
        found = IndexBuild.objects.filter(tenant=tenant, id=build_id, state__in=states)
        if not found.update(**values, lease_expires_at=None, fence=F("fence") + 1):
            raise errors.NotNow
        record_audit(
            action=action,
            tenant_id=tenant.id,
            actor_id=user.id if user else None,
            subject_id=build_id,
        )
        wake(TEND_TASK)
