"""Site administration."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from apps.telemetry.services import record_audit
from apps.tenants import services
from apps.tenants.models import Membership, User
from tests.cast import PASSWORD, Cast, make_user, signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff() -> User:
    user = make_user("staff")
    user.is_staff = user.is_superuser = True
    user.save()
    return user


def test_signing_in_goes_through_the_sites_own_page() -> None:
    response = Client().get("/admin/")
    assert response.status_code == 302
    landed = Client().get(response.headers["Location"])
    assert landed.headers["Location"].startswith(reverse("account_login"))


def test_the_admins_own_sign_in_form_is_closed(staff: User) -> None:
    browser = Client()
    form = {"username": staff.username, "password": PASSWORD}
    assert browser.post("/admin/login/", form).status_code == 302
    assert "_auth_user_id" not in browser.session


@pytest.mark.parametrize("name", ["alice", "olga"])
def test_people_who_are_not_staff_are_refused(cast: Cast, name: str) -> None:
    response = signed_in(getattr(cast, name)).get("/admin/", follow=True)
    assert response.status_code == 403


def every_model() -> list[str]:
    return sorted(f"{m._meta.app_label}_{m._meta.model_name}" for m in admin.site._registry)


def test_no_model_with_a_tenants_text_is_registered() -> None:
    assert not [name for name in every_model() if name.split("_")[0] in {"chat", "documents"}]


@pytest.mark.parametrize("name", every_model())
def test_every_list_opens(cast: Cast, staff: User, name: str) -> None:
    services.create_key(tenant=cast.acme, name="k", expires_at=None, actor=cast.alice)
    record_audit(action="x", tenant_id=cast.acme.id, actor_id=cast.alice.id)
    response = signed_in(staff).get(reverse(f"admin:{name}_changelist"), {"q": "acme"})
    assert response.status_code == 200


def test_no_hash_of_a_key_or_a_token_is_shown(cast: Cast, staff: User) -> None:
    key, _ = services.create_key(tenant=cast.acme, name="k", expires_at=None, actor=cast.alice)
    services.invite(
        tenant=cast.acme, email="d@example.com", role="member", actor=cast.alice, link="/{token}/"
    )
    invitation = cast.acme.invitations.get()
    browser = signed_in(staff)
    for kind, row, secret in [
        ("apikey", key, key.key_hash),
        ("invitation", invitation, invitation.token_hash),
    ]:
        page = browser.get(reverse(f"admin:tenants_{kind}_change", args=[row.id]))
        assert page.status_code == 200
        assert secret not in page.content.decode()


def test_staff_make_a_tenant_with_its_first_manager(cast: Cast, staff: User) -> None:
    form = {
        "name": "New",
        "slug": "new",
        "time_zone": "UTC",
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "0",
        "memberships-0-user": str(cast.bob.id),
        "memberships-0-role": "tenant_manager",
    }
    response = signed_in(staff).post(reverse("admin:tenants_tenant_add"), form)
    assert response.status_code == 302, response.content.decode()
    assert Membership.objects.get(tenant__slug="new").user == cast.bob


def test_staff_can_not_grant_themselves_a_tenants_text(cast: Cast, staff: User) -> None:
    form = {
        "name": "Acme",
        "slug": "acme",
        "time_zone": "UTC",
        "ops_may_read_text": "on",
        "memberships-TOTAL_FORMS": "0",
        "memberships-INITIAL_FORMS": "0",
    }
    signed_in(staff).post(reverse("admin:tenants_tenant_change", args=[cast.acme.id]), form)
    cast.acme.refresh_from_db()
    assert not cast.acme.ops_may_read_text


def test_the_page_of_a_tenant_says_how_to_delete_it(cast: Cast, staff: User) -> None:
    url = f"/admin/tenants/tenant/{cast.acme.id}"
    page = signed_in(staff).get(f"{url}/change/")
    assert "manage.py delete_tenant SLUG" in page.content.decode()
    assert signed_in(staff).post(f"{url}/delete/", {"post": "yes"}).status_code == 403
