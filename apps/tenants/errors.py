"""What can go wrong with people, invitations and keys.

TenantsError
├── LastManager            the tenant would be left without a manager
├── AlreadyMember          an invitation to someone who is in already
├── InvitationUnusable     unknown, revoked, accepted or out of date
├── InvitationForAnother   opened by someone signed in under another address
├── KeyInAddress           a key in an address: addresses are logged
├── KeyRefused             no key, or none that works
└── LimitRefused           a limit that cannot be set, by this person or at all
"""

from __future__ import annotations

from django.utils.translation import gettext


class TenantsError(Exception):
    """Refused, with words for the person. Never carries a token or a key."""

    code = "tenants_error"
    retryable = False


class LastManager(TenantsError):
    code = "last_manager"

    def __init__(self) -> None:
        super().__init__(
            "This is the last tenant manager. Make someone else a tenant manager first."
        )


class AlreadyMember(TenantsError):
    code = "already_member"

    def __init__(self, email: str) -> None:
        super().__init__(f"{email} is a member already. Change the role in the list of members.")


class InvitationUnusable(TenantsError):
    code = "invitation_unusable"

    def __init__(self) -> None:
        super().__init__(
            gettext(
                "This invitation is no longer valid: it was used, taken back or has expired. "
                "Ask for a new one."
            )
        )


class InvitationForAnother(TenantsError):
    code = "invitation_for_another"

    def __init__(self, invited: str, signed_in: str) -> None:
        super().__init__(
            gettext(
                "This invitation is for %(guest)s, and you are signed in as %(own)s. "
                "Sign out and use %(guest)s, or ask for an invitation to %(own)s."
            )
            % {"guest": invited, "own": signed_in}
        )


class KeyInAddress(TenantsError):
    code = "key_in_address"

    def __init__(self) -> None:
        super().__init__(
            "A key was sent in the address, where it is logged on the way. Revoke it, make another "
            "one, and send that in the header: Authorization: Bearer rk_…"
        )


class KeyRefused(TenantsError):
    code = "unauthorized"

    def __init__(self, *, sent: bool) -> None:
        super().__init__(
            "This key does not work: it is wrong, was revoked or has expired."
            if sent
            else "Send a key of your tenant in the header: Authorization: Bearer rk_…"
        )


class LimitRefused(TenantsError):
    code = "limit_refused"
