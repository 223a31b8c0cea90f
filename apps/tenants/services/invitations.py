"""Invitations: the only way to an account."""

from __future__ import annotations

import logging
from datetime import timedelta
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.template.loader import render_to_string
from django.utils import timezone

from apps.telemetry.services import record_audit
from apps.tenants.errors import AlreadyMember, InvitationForAnother, InvitationUnusable
from apps.tenants.models import Invitation, Membership, Role, Tenant, User
from apps.tenants.services.people import add_member
from apps.tenants.tokens import hash_token, new_token

VALID_FOR = timedelta(days=7)
logger = logging.getLogger(__name__)


@transaction.atomic
def invite(*, tenant: Tenant, email: str, role: str, actor: User, link: str) -> str:
    """Offer membership to an address, mail it the link, and return that.

    `link` holds `{token}` where the token goes; only now is it known. Inviting an address again
    replaces its token. Raises AlreadyMember.
    """
    if Membership.objects.filter(tenant=tenant, user__email__iexact=email).exists():
        raise AlreadyMember(email)
    token = new_token()
    Invitation.objects.filter(tenant=tenant, email__iexact=email, accepted_at__isnull=True).delete()
    invitation = Invitation.objects.create(
        tenant=tenant,
        email=email,
        role=Role(role),
        token_hash=hash_token(token),
        invited_by=actor,
        expires_at=timezone.now() + VALID_FOR,
    )
    _audit("invitation.created", invitation, actor)
    url = link.format(token=token)
    transaction.on_commit(lambda: _send(invitation, url))
    return url


@transaction.atomic
def revoke_invitation(*, invitation: Invitation, actor: User) -> None:
    """Take an open invitation back; its link stops working at once."""
    _audit("invitation.revoked", invitation, actor)
    Invitation.objects.filter(
        tenant_id=invitation.tenant_id, id=invitation.id, accepted_at__isnull=True
    ).delete()


@transaction.atomic
def accept_invitation(*, invitation: Invitation, user: User) -> Membership:
    """Make `user`, to whose address the invitation went, a member. An invitation works once.

    Raises InvitationForAnother and InvitationUnusable.
    """
    if not is_for(invitation, user):
        raise InvitationForAnother(invitation.email, user.email)
    now = timezone.now()
    taken = Invitation.objects.filter(
        tenant_id=invitation.tenant_id,
        id=invitation.id,
        accepted_at__isnull=True,
        expires_at__gt=now,
    ).update(accepted_at=now)
    if not taken:
        raise InvitationUnusable
    _audit("invitation.accepted", invitation, user)
    return add_member(tenant=invitation.tenant, user=user, role=invitation.role, actor=user)


def is_for(invitation: Invitation, user: User) -> bool:
    """Whether the invitation went to `user`'s address."""
    return invitation.email.casefold() == user.email.casefold()


def _send(invitation: Invitation, url: str) -> None:
    """Mail the link. A mail server that is down is logged: the manager has the link too."""
    context = {"invitation": invitation, "url": url, "days": VALID_FOR.days}
    try:
        send_mail(
            subject=f"You are invited to {' '.join(invitation.tenant.name.split())}",
            message=render_to_string("tenants/email/invitation.txt", context),
            from_email=settings.DEFAULT_FROM_EMAIL,
            recipient_list=[invitation.email],
        )
    except (SMTPException, OSError) as exc:
        logger.warning("invitation %s was not mailed: %s", invitation.id, type(exc).__name__)


def _audit(action: str, invitation: Invitation, actor: User) -> None:
    record_audit(
        action=action,
        tenant_id=invitation.tenant_id,
        actor_id=actor.id,
        subject_id=f"invitation {invitation.id}",
    )
