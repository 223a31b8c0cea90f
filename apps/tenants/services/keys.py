"""API keys: credentials for programs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.telemetry.services import record_audit
from apps.tenants.models import ApiKey, KeyScope, Tenant, User
from apps.tenants.tokens import hash_token, new_token

PREFIX = "rk_"
_SHOWN_CHARS = 12  # enough to tell keys apart in a list; 202 of the 256 bits stay unknown
_NOTE_USE_EVERY = timedelta(minutes=1)  # a busy key would otherwise write at every request
# Rooms above that keep what they have looked up of keys are told here when one is revoked.
on_revoke: list[Callable[[], None]] = []


@transaction.atomic
def create_key(
    *,
    tenant: Tenant,
    name: str,
    expires_at: datetime | None,
    actor: User,
    scope: KeyScope = KeyScope.READ,
    collection_ids: Iterable[uuid.UUID] = (),
    may_use_models: bool = False,
    model_aliases: Iterable[str] = (),
) -> tuple[ApiKey, str]:
    """A new key, and its secret text: only now is that known.

    It opens the collections named, or all of the tenant's where none is; of models the same, for
    a key that may use them.
    """
    raw = new_token(PREFIX)
    key = ApiKey.objects.create(
        tenant=tenant,
        name=name,
        prefix=raw[:_SHOWN_CHARS],
        key_hash=hash_token(raw),
        created_by=actor,
        expires_at=expires_at,
        scope=scope,
        collection_ids=sorted(set(collection_ids)),
        may_use_models=may_use_models,
        model_aliases=sorted(set(model_aliases)) if may_use_models else [],
    )
    _audit("api_key.created", key, actor)
    return key, raw


@transaction.atomic
def revoke_key(*, key: ApiKey, actor: User) -> None:
    """Stop a key from working, at once. Revoking it again changes nothing."""
    revoked = ApiKey.objects.filter(
        tenant_id=key.tenant_id, id=key.id, revoked_at__isnull=True
    ).update(revoked_at=timezone.now())
    if revoked:
        _audit("api_key.revoked", key, actor)
        transaction.on_commit(_tell)


def authenticate_key(raw: str) -> ApiKey | None:
    """The working key whose secret text is `raw`, with its tenant; None for any other text."""
    now = timezone.now()
    working = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
    key = (
        ApiKey.objects.select_related("tenant", "created_by")
        .filter(working, key_hash=hash_token(raw), revoked_at__isnull=True)
        .first()
    )
    if key is not None and (key.last_used_at is None or now - key.last_used_at > _NOTE_USE_EVERY):
        ApiKey.objects.filter(tenant_id=key.tenant_id, id=key.id).update(last_used_at=now)
    return key


def _tell() -> None:
    for tell in on_revoke:
        tell()


def _audit(action: str, key: ApiKey, actor: User) -> None:
    record_audit(
        action=action, tenant_id=key.tenant_id, actor_id=actor.id, subject_id=f"key {key.id}"
    )
