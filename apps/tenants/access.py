"""Who may do what in a tenant: the one place where rights are decided.

A stranger gets 404, so that a guessed address tells nothing; a member without the right gets 403.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Concatenate, ParamSpec, cast

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase

from apps.tenants.models import ApiKey, KeyScope, Membership, Role, Tenant, User
from apps.tenants.scope import tenant_scope


class Right(StrEnum):
    """Something a person may do in a tenant."""

    READ = "read"  # open documents of the collections open to them
    CHAT = "chat"
    SEE_HOPS = "see_hops"  # time, tokens and hops of an answer
    MANAGE_CORPUS = "manage_corpus"  # collections and uploads
    MANAGE_PEOPLE = "manage_people"  # members, roles, invitations, API keys


_MEMBER = frozenset({Right.READ, Right.CHAT})
_CORPUS_ADMIN = _MEMBER | {Right.MANAGE_CORPUS, Right.SEE_HOPS}
_TENANT_MANAGER = _CORPUS_ADMIN | {Right.MANAGE_PEOPLE}
RIGHTS: dict[str, frozenset[Right]] = {
    Role.MEMBER: _MEMBER,
    Role.CORPUS_ADMIN: _CORPUS_ADMIN,
    Role.TENANT_MANAGER: _TENANT_MANAGER,
}
# Operations read a tenant's text only where the tenant has said so.
OPS_RIGHTS_WHERE_GRANTED = frozenset({Right.READ, Right.SEE_HOPS})


@dataclass(frozen=True)
class Access:
    """One person's rights in one tenant, as of now."""

    tenant: Tenant
    user: User
    role: str  # "" for operations let in by a grant
    rights: frozenset[Right]

    def may(self, right: Right) -> bool:
        return right in self.rights

    @property
    def may_manage_corpus(self) -> bool:
        return Right.MANAGE_CORPUS in self.rights

    @property
    def may_manage_people(self) -> bool:
        return Right.MANAGE_PEOPLE in self.rights

    @property
    def may_chat(self) -> bool:
        return Right.CHAT in self.rights

    @property
    def may_see_hops(self) -> bool:
        return Right.SEE_HOPS in self.rights


KEY_RIGHTS: dict[str, frozenset[Right]] = {
    KeyScope.READ: frozenset({Right.READ}),
    KeyScope.MANAGE: frozenset({Right.READ, Right.MANAGE_CORPUS}),
}


@dataclass(frozen=True)
class KeyAccess:
    """A program's rights in the tenant whose key it holds, as of now."""

    key: ApiKey

    @property
    def tenant(self) -> Tenant:
        return self.key.tenant

    @property
    def user(self) -> User | None:
        """Whoever made the key: what is done with it is done in their name."""
        return self.key.created_by

    def may(self, right: Right) -> bool:
        return right in KEY_RIGHTS[self.key.scope]

    @property
    def collection_ids(self) -> list[uuid.UUID] | None:
        """The collections that it opens; None for all of the tenant's."""
        return self.key.collection_ids or None


class TenantRequest(HttpRequest):
    """A request that `tenant_page` has let through."""

    access: Access
    htmx: Any


def find_access(user: User | AnonymousUser, *, slug: str) -> Access | None:
    """`user`'s rights in the tenant called `slug`; None for strangers and unknown tenants."""
    return _access(user, Tenant.objects.filter(slug=slug).first())


def _access(user: User | AnonymousUser, tenant: Tenant | None) -> Access | None:
    if tenant is None or not isinstance(user, User) or not user.is_active:
        return None
    membership = Membership.objects.filter(tenant=tenant, user=user).first()
    if membership is not None:
        return Access(tenant, user, membership.role, RIGHTS[membership.role])
    if user.is_ops and tenant.ops_may_read_text:
        return Access(tenant, user, "", OPS_RIGHTS_WHERE_GRANTED)
    return None


P = ParamSpec("P")
View = Callable[Concatenate[TenantRequest, P], HttpResponseBase]


def tenant_page(
    right: Right, *, scoped: bool = True
) -> Callable[[View[P]], Callable[..., HttpResponseBase]]:
    """A view under `/t/<tenant_slug>/`, for signed-in people with `right`, in the tenant's scope.

    The view takes the request (with `request.access`) and the URL's other arguments. Its scope is
    closed when it returns: a streamed body must not need the database. A view that works for
    longer than a transaction should last takes `scoped=False` and opens its own scopes.
    """

    def decorate(view: View[P]) -> Callable[..., HttpResponseBase]:
        @login_required
        @functools.wraps(view)
        def wrapped(
            request: HttpRequest, tenant_slug: str, *args: P.args, **kwargs: P.kwargs
        ) -> HttpResponseBase:
            access = find_access(request.user, slug=tenant_slug)
            if access is None:
                raise Http404
            if not access.may(right):
                raise PermissionDenied
            tenant_request = cast(TenantRequest, request)
            tenant_request.access = access
            with tenant_scope(access.tenant.id) if scoped else nullcontext():
                return view(tenant_request, *args, **kwargs)

        wrapped.required_right = right  # type: ignore[attr-defined]
        return wrapped

    return decorate
