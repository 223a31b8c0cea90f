"""How django-allauth behaves here: accounts come from invitations, not from strangers."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest

from apps.tenants import selectors
from apps.tenants.errors import TenantsError
from apps.tenants.models import Invitation, User
from apps.tenants.services import accept_invitation

if TYPE_CHECKING:
    from allauth.socialaccount.models import SocialLogin

_SESSION_KEY = "invitation"


def remember_invitation(request: HttpRequest, invitation: Invitation) -> None:
    """Keep an opened invitation for the sign-up or sign-in that follows."""
    request.session[_SESSION_KEY] = str(invitation.id)


def forget_invitation(request: HttpRequest) -> None:
    request.session.pop(_SESSION_KEY, None)


def remembered_invitation(request: HttpRequest) -> Invitation | None:
    """The invitation this browser has opened, while it can still be accepted."""
    stored = request.session.get(_SESSION_KEY)
    return selectors.find_invitation_by_id(uuid.UUID(stored)) if stored else None


class InvitedOnlyAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """Signing up with a password."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return remembered_invitation(request) is not None

    @transaction.atomic
    def save_user(
        self,
        request: HttpRequest,
        user: User,
        form: Any,
        commit: bool = True,
    ) -> User:
        saved: User = super().save_user(request, user, form, commit=commit)
        if commit:
            _join(request, saved, remembered_invitation(request))
        return saved


class InvitedOnlySocialAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Signing up and in through the OpenID Connect issuer."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        """Open to an invited address that has no account.

        An account with the address that was not matched has never confirmed it: letting the
        issuer's word overrule that would hand over whatever its maker left in it.
        """
        if selectors.has_account(sociallogin.user.email):
            return False
        return _invitation_for(request, sociallogin) is not None

    def authenticate_by_email(self, sociallogin: SocialLogin) -> tuple[User, str] | None:
        """Match an account only when it, too, has confirmed the address."""
        match: tuple[User, str] | None = super().authenticate_by_email(sociallogin)
        if match is None:
            return None
        user, email = match
        confirmed = EmailAddress.objects.filter(user=user, email__iexact=email, verified=True)
        return match if confirmed.exists() else None

    @transaction.atomic
    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        invitation = _invitation_for(request, sociallogin)
        user: User = super().save_user(request, sociallogin, form)
        _join(request, user, invitation)
        return user


def _invitation_for(request: HttpRequest, sociallogin: SocialLogin) -> Invitation | None:
    """The opened invitation, if it is to this address; else one to an address the issuer vouches
    for."""
    address = sociallogin.user.email
    opened = remembered_invitation(request)
    if opened is not None and opened.email.casefold() == address.casefold():
        return opened
    vouched = any(
        entry.verified and entry.email.casefold() == address.casefold()
        for entry in sociallogin.email_addresses
    )
    return selectors.newest_invitation_to(address) if vouched else None


def _join(request: HttpRequest, user: User, invitation: Invitation | None) -> None:
    """Accept the invitation a new account was made with.

    It can be taken back in this very moment: the account then belongs nowhere, and is told why.
    """
    forget_invitation(request)
    if invitation is None:
        return
    try:
        accept_invitation(invitation=invitation, user=user)
    except TenantsError as exc:
        messages.error(request, str(exc))
