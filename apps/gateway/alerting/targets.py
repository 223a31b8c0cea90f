"""Setting where a tenant's alerts go."""

from __future__ import annotations

from collections.abc import Sequence

from apps.gateway.alerting.addresses import find_target
from apps.gateway.alerting.webhook import DEADLINE_S
from apps.gateway.models import AlertTarget
from apps.telemetry.services import record_audit
from apps.tenants.models import Tenant, User
from apps.tenants.scope import tenant_scope
from apps.tenants.tokens import new_token

EMAILS_MAX = 10


def set_target(
    *,
    tenant: Tenant,
    actor: User,
    mail_managers: bool,
    emails: Sequence[str] = (),
    webhook_url: str = "",
    new_secret: bool = False,
) -> AlertTarget:
    """Where alerts go from now on; raises AddressRefused for a webhook that may not be called.

    A webhook gets a secret with its first address, and another one where `new_secret` asks.
    """
    if webhook_url:
        find_target(webhook_url, timeout_s=DEADLINE_S)  # not in a transaction: it asks a resolver
    with tenant_scope(tenant.id):
        before = AlertTarget.objects.select_for_update().filter(tenant=tenant).first()
        secret = before.webhook_secret if before else ""
        target = AlertTarget(
            tenant=tenant,
            mail_managers=mail_managers,
            emails=list(dict.fromkeys(emails))[:EMAILS_MAX],
            webhook_url=webhook_url,
            webhook_secret=new_token() if new_secret or not secret else secret,
        )
        AlertTarget.objects.bulk_create(
            [target],
            update_conflicts=True,
            unique_fields=["tenant"],
            update_fields=["mail_managers", "emails", "webhook_url", "webhook_secret"],
        )
        record_audit(
            action="alert_target.set",
            tenant_id=tenant.id,
            actor_id=actor.id,
            subject_id=tenant.id,
        )
    return target
