"""Finding answers whose process has died, where nobody follows them."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from django.utils import timezone

from apps.chat.models import Message, MessageState
from apps.chat.streams import owning
from apps.chat.streams.keys import Owned
from apps.chat.streams.owning import Held
from apps.chat.streams.recovery import recover
from apps.tenants.aio import in_thread
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

logger = logging.getLogger(__name__)

# By then an answer has its lease, if its process lives.
_SETTLED_AFTER = timedelta(seconds=30)


def sweep() -> int:
    """End the answers that nobody writes any more; returns how many.

    With Redis away it is not known who lives, and nothing is ended.
    """
    return asyncio.run(_sweep())


async def _sweep() -> int:
    dead = await owning.run_out()
    # Those without a lease are given one, and are found again when it has run out.
    held = await owning.look(await in_thread(_streaming))
    dead += [owned for owned, state in held.items() if state == Held.DEAD and owned not in dead]
    ended = 0
    for owned in dead:
        try:
            ended += await recover(owned)
        except Exception as exc:
            # The others must not wait for it; it is found again.
            logger.error("answer %s was not ended: %s", owned[1], type(exc).__name__)
    return ended


def _streaming() -> list[Owned]:
    before = timezone.now() - _SETTLED_AFTER
    found: list[Owned] = []
    for tenant_id in Tenant.objects.order_by("id").values_list("id", flat=True):
        with tenant_scope(tenant_id):
            rows = Message.objects.filter(
                tenant_id=tenant_id, state=MessageState.STREAMING, created_at__lt=before
            )
            found += [(tenant_id, answer_id) for answer_id in rows.values_list("id", flat=True)]
    return found
