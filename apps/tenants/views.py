"""Parse, authorise, make one call, render."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.forms import model_to_dict
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache

from apps.tenants import accounts, selectors, services
from apps.tenants.access import Right, TenantRequest, tenant_page
from apps.tenants.errors import TenantsError
from apps.tenants.forms import InviteForm, KeyForm, RoleForm, SettingsForm
from apps.tenants.models import Role, User


@login_required
def home(request: HttpRequest) -> HttpResponse:
    """To the person's only tenant; otherwise a choice, or what to do when there is none."""
    assert isinstance(request.user, User)  # noqa: S101 - login_required; for the type checker
    memberships = list(selectors.memberships_of(request.user))
    readable = list(selectors.readable_by_ops(request.user))
    if len(memberships) == 1 and not readable:
        return redirect("chat:home", memberships[0].tenant.slug)
    return render(request, "tenants/home.html", {"memberships": memberships, "readable": readable})


# --- Invitations, from the invited person's side -------------------------------------------------


@never_cache
def open_invitation(request: HttpRequest, token: str) -> HttpResponse:
    """The mailed link: remember the invitation, and drop the token from the address bar."""
    found = selectors.find_invitation(token)
    if found is None:
        return render(request, "tenants/invitation_unusable.html", status=404)
    accounts.remember_invitation(request, found)
    return redirect("tenants:invitation")


@never_cache
def invitation(request: HttpRequest) -> HttpResponse:
    """Join when signed in with the invited address; else sign in or sign up with it."""
    found = accounts.remembered_invitation(request)
    if found is None:
        return render(request, "tenants/invitation_unusable.html", status=404)
    if isinstance(request.user, User) and request.method == "POST":
        return _join(request, request.user)
    context = {
        "invitation": found,
        "for_this_person": isinstance(request.user, User) and services.is_for(found, request.user),
        "has_account": selectors.has_account(found.email),
    }
    return render(request, "tenants/invitation.html", context)


def _join(request: HttpRequest, user: User) -> HttpResponse:
    found = accounts.remembered_invitation(request)
    if found is None:
        return render(request, "tenants/invitation_unusable.html", status=404)
    try:
        membership = services.accept_invitation(invitation=found, user=user)
    except TenantsError as exc:
        messages.error(request, str(exc))
        return redirect("tenants:invitation")
    accounts.forget_invitation(request)
    messages.success(request, gettext("Welcome to %(name)s.") % {"name": found.tenant.name})
    return redirect("chat:home", membership.tenant.slug)


# --- People --------------------------------------------------------------------------------------


@tenant_page(Right.MANAGE_PEOPLE)
def people(request: TenantRequest) -> HttpResponse:
    return _people(request, InviteForm())


@tenant_page(Right.MANAGE_PEOPLE)
@never_cache
def create_invitation(request: TenantRequest) -> HttpResponse:
    """Invite someone; the answer shows the link, which nothing can show again."""
    form = InviteForm(request.POST or None)
    if not form.is_valid():
        return _people(request, form)
    pattern = request.build_absolute_uri(reverse("tenants:open_invitation", args=["TOKEN"]))
    try:
        link = services.invite(
            tenant=request.access.tenant,
            email=form.cleaned_data["email"],
            role=form.cleaned_data["role"],
            actor=request.access.user,
            link=pattern.replace("TOKEN", "{token}"),
        )
    except TenantsError as exc:
        form.add_error("email", str(exc))
        return _people(request, form)
    context = {"email": form.cleaned_data["email"], "link": link}
    return render(request, "tenants/invitation_created.html", context)


def _people(request: TenantRequest, form: InviteForm) -> HttpResponse:
    tenant_id = request.access.tenant.id
    context = {
        "members": selectors.members_of(tenant_id),
        "invitations": selectors.open_invitations_of(tenant_id),
        "roles": Role.choices,
        "form": form,
    }
    return render(request, "tenants/people.html", context)


@tenant_page(Right.MANAGE_PEOPLE)
def set_role(request: TenantRequest, membership_id: uuid.UUID) -> HttpResponse:
    members = selectors.members_of(request.access.tenant.id)
    membership = get_object_or_404(members, id=membership_id)
    form = RoleForm(request.POST or None)
    if form.is_valid():
        role = Role(form.cleaned_data["role"])
        try:
            services.change_role(membership=membership, role=role, actor=request.access.user)
        except TenantsError as exc:
            messages.error(request, str(exc))
        else:
            messages.success(request, f"{membership.user.email} is now {role.label.lower()}.")
    elif request.method == "POST":
        messages.error(request, "Choose one of the roles in the list.")
    return _to_people(request)


@tenant_page(Right.MANAGE_PEOPLE)
def remove_person(request: TenantRequest, membership_id: uuid.UUID) -> HttpResponse:
    members = selectors.members_of(request.access.tenant.id)
    membership = get_object_or_404(members, id=membership_id)
    if request.method != "POST":
        return render(request, "tenants/remove_person.html", {"membership": membership})
    try:
        services.remove_member(membership=membership, actor=request.access.user)
    except TenantsError as exc:
        messages.error(request, str(exc))
    else:
        messages.success(request, f"{membership.user.email} is no longer a member.")
    if membership.user_id == request.access.user.id:
        return redirect("tenants:home")
    return _to_people(request)


@tenant_page(Right.MANAGE_PEOPLE)
def take_back_invitation(request: TenantRequest, invitation_id: uuid.UUID) -> HttpResponse:
    invitations = selectors.open_invitations_of(request.access.tenant.id)
    found = get_object_or_404(invitations, id=invitation_id)
    if request.method != "POST":
        return render(request, "tenants/revoke_invitation.html", {"invitation": found})
    services.revoke_invitation(invitation=found, actor=request.access.user)
    messages.success(request, f"The invitation to {found.email} was taken back.")
    return _to_people(request)


def _to_people(request: TenantRequest) -> HttpResponse:
    """Back to the list; someone who has just demoted themselves may no longer see it."""
    access = request.access
    still = selectors.members_of(access.tenant.id).filter(
        user=access.user, role=Role.TENANT_MANAGER
    )
    return redirect("tenants:people", access.tenant.slug) if still else redirect("tenants:home")


# --- Keys and settings ---------------------------------------------------------------------------


@tenant_page(Right.MANAGE_PEOPLE)
@never_cache
def keys(request: TenantRequest) -> HttpResponse:
    """The list, and a new key; the answer to that shows the key, which nothing can show again."""
    tenant = request.access.tenant
    form = KeyForm(request.POST or None)
    if not form.is_valid():
        return render(
            request, "tenants/keys.html", {"keys": selectors.keys_of(tenant.id), "form": form}
        )
    key, raw = services.create_key(
        tenant=tenant,
        name=form.cleaned_data["name"],
        expires_at=form.expires_at(),
        actor=request.access.user,
        scope=form.cleaned_data["scope"],
        collection_ids=form.cleaned_data["collections"],
        may_use_models=form.cleaned_data["may_use_models"],
        model_aliases=form.cleaned_data["models"],
    )
    return render(request, "tenants/key_created.html", {"key": key, "raw": raw})


@tenant_page(Right.MANAGE_PEOPLE)
def stop_key(request: TenantRequest, key_id: uuid.UUID) -> HttpResponse:
    key = get_object_or_404(selectors.keys_of(request.access.tenant.id), id=key_id)
    if request.method != "POST":
        return render(request, "tenants/revoke_key.html", {"key": key})
    services.revoke_key(key=key, actor=request.access.user)
    messages.success(request, f"The key {key.name} no longer works.")
    return redirect("tenants:keys", request.access.tenant.slug)


@tenant_page(Right.MANAGE_PEOPLE)
def tenant_settings(request: TenantRequest) -> HttpResponse:
    initial = model_to_dict(request.access.tenant)
    form = SettingsForm(request.POST or None, initial=initial)
    if not form.is_valid():
        return render(request, "tenants/settings.html", {"form": form})
    tenant = services.update_tenant(
        tenant=request.access.tenant, actor=request.access.user, **form.cleaned_data
    )
    messages.success(request, "Saved.")
    return redirect("tenants:settings", tenant.slug)
