"""How django-allauth behaves here: accounts come from invitations, not from strangers."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter


class InvitedOnlyAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    pass


class InvitedOnlySocialAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    pass
