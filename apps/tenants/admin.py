"""Site administration of tenants and people. No hash of a token or key is shown."""

from __future__ import annotations

from typing import Any

from allauth.account.admin import EmailAddressAdmin as AllauthEmailAddressAdmin
from allauth.account.decorators import secure_admin_login
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from apps.telemetry.admin import ReadOnlyAdmin
from apps.tenants.models import ApiKey, Invitation, Membership, Tenant, User

# Signing in goes through the site's own page, so that the second factor holds here, too.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]
admin.site.site_header = admin.site.site_title = "ragsite"

# Single sign-on is set up by settings alone, and tokens of others are nobody's to read.
for model in (SocialApp, SocialToken, SocialAccount, Authenticator, EmailAddress, Group):
    admin.site.unregister(model)


class MembershipInline(TabularInline):  # type: ignore[misc]
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Tenant)
class TenantAdmin(ModelAdmin):  # type: ignore[misc]
    list_display = ("name", "slug", "ops_may_read_text", "created_at")
    search_fields = ("name", "slug")
    prepopulated_fields = {"slug": ("name",)}  # noqa: RUF012
    fieldsets = (
        (
            None,
            {
                "fields": ("name", "slug", "time_zone", "ops_may_read_text"),
                "description": "To delete a tenant with its documents, files and conversations, "
                "run: manage.py delete_tenant SLUG",
            },
        ),
    )
    # A tenant's own managers decide who reads its text.
    readonly_fields = ("ops_may_read_text",)
    inlines = (MembershipInline,)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No: its documents and files are not visible from here, and would be left behind."""
        return False


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("email", "is_active", "is_staff", "is_ops", "last_login")
    list_filter = ("is_active", "is_staff", "is_ops")
    search_fields = ("email", "username")
    ordering = ("email",)
    fieldsets = (
        (None, {"fields": ("email", "username", "password")}),
        ("Rights", {"fields": ("is_active", "is_staff", "is_superuser", "is_ops")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = ((None, {"fields": ("email", "username", "password1", "password2")}),)
    filter_horizontal = ()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No: their conversations are not visible from here. Turn the account off instead."""
        return False


@admin.register(Membership)
class MembershipAdmin(ModelAdmin):  # type: ignore[misc]
    list_display = ("user", "tenant", "role", "created_at")
    list_filter = ("role",)
    list_select_related = ("user", "tenant")
    search_fields = ("user__email", "tenant__name", "tenant__slug")
    autocomplete_fields = ("user", "tenant")


@admin.register(Invitation)
class InvitationAdmin(ReadOnlyAdmin):
    list_display = ("email", "tenant", "role", "created_at", "expires_at", "accepted_at")
    list_select_related = ("tenant",)
    search_fields = ("email", "tenant__name", "tenant__slug")
    exclude = ("token_hash",)


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    list_display = ("name", "prefix", "tenant", "created_at", "expires_at", "revoked_at")
    list_select_related = ("tenant",)
    search_fields = ("name", "prefix", "tenant__name", "tenant__slug")
    exclude = ("key_hash",)


@admin.register(EmailAddress)
class EmailAddressAdmin(ModelAdmin, AllauthEmailAddressAdmin):  # type: ignore[misc]
    """Addresses, and whether they are confirmed."""


@admin.register(Authenticator)
class AuthenticatorAdmin(ModelAdmin):  # type: ignore[misc]
    """Second factors, without their secrets: deleting one helps someone who lost a phone."""

    list_display = ("user", "type", "created_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("user__email",)
    fields = ("user", "type", "created_at", "last_used_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
