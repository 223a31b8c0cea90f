"""Telling what was noted: by mail and to the webhook, each until it has worked or was given up.

An attempt is claimed before it is made, by moving its next one ahead: of two workers one tells,
and what a worker was killed over is told again. The mail is noted as sent before the webhook is
called, so that a webhook that fails doubles no mail.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from apps.gateway.alerting.webhook import WebhookFailed, call_webhook
from apps.gateway.alerting.words import Words, test_words, words_of
from apps.gateway.models import AlertTarget, BudgetAlert
from apps.tenants.models import Role, Tenant, User
from apps.tenants.scope import tenant_scope

logger = logging.getLogger(__name__)

# After the first attempt, the second, …; after the last of these it is given up.
RETRY_AFTER_S = (60, 300, 1800, 7200, 21600)
_TOLD_AT_ONCE = 50
_SMTP_TIMEOUT_S = 10


def tell_due() -> int:
    """Tell what is due, of all tenants; how many attempts were made."""
    alerts = _claim()
    tenants = {
        tenant.id: tenant
        for tenant in Tenant.objects.filter(id__in={alert.tenant_id for alert in alerts})
    }
    for alert in alerts:
        tenant = tenants.get(alert.tenant_id)
        if tenant is None:  # deleted meanwhile
            BudgetAlert.objects.filter(id=alert.id).update(due_at=None)
        else:
            _tell(alert, tenant)
    return len(alerts)


def send_test(*, tenant: Tenant) -> tuple[str, str]:
    """Mail and call once, now; what came of each: "" (it went), or why it did not."""
    target, words = target_of(tenant), test_words(tenant)
    return _mail(tenant, target, words), _hook(target, words)


def target_of(tenant: Tenant) -> AlertTarget:
    """Where the tenant's alerts go; its managers, where nothing was set."""
    with tenant_scope(tenant.id):
        return AlertTarget.objects.filter(tenant=tenant).first() or AlertTarget(tenant=tenant)


def recipients_of(tenant: Tenant, target: AlertTarget) -> list[str]:
    """Addresses that alerts are mailed to, each once."""
    managers = User.objects.filter(
        is_active=True, memberships__tenant=tenant, memberships__role=Role.TENANT_MANAGER
    ).order_by("email")
    mailed = list(managers.values_list("email", flat=True)) if target.mail_managers else []
    return list({email.casefold(): email for email in [*target.emails, *mailed]}.values())


def _claim() -> list[BudgetAlert]:
    with transaction.atomic():
        due = BudgetAlert.objects.filter(due_at__lte=Now()).order_by("due_at", "id")
        alerts = list(due.select_for_update(skip_locked=True)[:_TOLD_AT_ONCE])
        for alert in alerts:
            # One attempt takes 15 s at most, the shortest pause is four times that.
            pause = RETRY_AFTER_S[min(alert.attempts, len(RETRY_AFTER_S) - 1)]
            alert.due_at = timezone.now() + timedelta(seconds=pause)
            alert.attempts += 1
            alert.save(update_fields=["attempts", "due_at"])
    return alerts


def _tell(alert: BudgetAlert, tenant: Tenant) -> None:
    target, words = target_of(tenant), words_of(alert, tenant)
    if alert.mailed_at is None:
        alert.mail_error = _mail(tenant, target, words)
        alert.mailed_at = None if alert.mail_error else timezone.now()
        alert.save(update_fields=["mailed_at", "mail_error"])
    if alert.hooked_at is None:
        alert.hook_error = _hook(target, words)
        alert.hooked_at = None if alert.hook_error else timezone.now()
    if alert.attempts > len(RETRY_AFTER_S) or not _is_worth_repeating(alert):
        alert.due_at = None
    alert.save(update_fields=["hooked_at", "hook_error", "due_at"])


# There is nobody to tell: that is no failure, and trying again would not change it.
NOBODY = "nobody"


def _is_worth_repeating(alert: BudgetAlert) -> bool:
    return {alert.mail_error, alert.hook_error} - {"", NOBODY} != set()


def _mail(tenant: Tenant, target: AlertTarget, words: Words) -> str:
    """ "" or why it was not mailed. One message: either all get it or it is sent again."""
    recipients = recipients_of(tenant, target)
    if not recipients:
        return NOBODY
    message = EmailMessage(
        subject=words.subject,
        body=words.text,
        from_email=settings.DEFAULT_FROM_EMAIL,
        bcc=recipients,
        headers={"To": "undisclosed-recipients:;", "Auto-Submitted": "auto-generated"},
        connection=get_connection(timeout=_SMTP_TIMEOUT_S),
    )
    try:
        message.send()
    except (SMTPException, OSError, ValueError) as exc:
        logger.warning("alert of tenant %s not mailed: %s", tenant.id, type(exc).__name__)
        return "mail_server"
    return ""


def _hook(target: AlertTarget, words: Words) -> str:
    """ "" or why the webhook was not told."""
    if not target.webhook_url:
        return NOBODY
    try:
        call_webhook(target.webhook_url, target.webhook_secret, words.payload)
    except WebhookFailed as exc:
        logger.warning("webhook of tenant %s not told: %s", target.tenant_id, exc.code)
        return exc.code
    return ""
