"""The front door, invitations, and the pages where a tenant's people and keys are managed."""

from __future__ import annotations

from django.urls import include, path

from apps.tenants import views

app_name = "tenants"

tenant_patterns = [
    path("people/", views.people, name="people"),
    path("people/invite/", views.create_invitation, name="invite"),
    path("people/<uuid:membership_id>/role/", views.set_role, name="set_role"),
    path("people/<uuid:membership_id>/remove/", views.remove_person, name="remove_person"),
    path(
        "invitations/<uuid:invitation_id>/revoke/",
        views.take_back_invitation,
        name="revoke_invitation",
    ),
    path("keys/", views.keys, name="keys"),
    path("keys/<uuid:key_id>/revoke/", views.stop_key, name="revoke_key"),
    path("settings/", views.tenant_settings, name="settings"),
]
urlpatterns = [
    path("", views.home, name="home"),
    path("invitations/<str:token>/", views.open_invitation, name="open_invitation"),
    path("invitation/", views.invitation, name="invitation"),
    path("t/<slug:tenant_slug>/", include(tenant_patterns)),
]
