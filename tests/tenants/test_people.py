"""Members, roles and the tenant's settings."""

from __future__ import annotations

import threading

import pytest
from django.db import connections
from django.urls import reverse

from apps.telemetry.models import AuditEvent
from apps.tenants import services
from apps.tenants.errors import LastManager
from apps.tenants.models import Membership, Role
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db


def membership(cast: Cast, name: str) -> Membership:
    return Membership.objects.get(tenant=cast.acme, user=getattr(cast, name))


def url(name: str, cast: Cast, *args: object) -> str:
    return reverse(f"tenants:{name}", args=[cast.acme.slug, *args])


def test_the_page_lists_members_with_their_roles(cast: Cast) -> None:
    page = signed_in(cast.alice).get(url("people", cast)).content.decode()
    assert "bob@example.com" in page
    assert "mallory@example.com" not in page


def test_a_manager_changes_a_role(cast: Cast) -> None:
    bob = membership(cast, "bob")
    response = signed_in(cast.alice).post(
        url("set_role", cast, bob.id), {"role": "corpus_admin"}, follow=True
    )
    bob.refresh_from_db()
    assert bob.role == Role.CORPUS_ADMIN
    assert "bob@example.com is now corpus admin." in response.content.decode()
    event = AuditEvent.objects.get(action="member.role_corpus_admin")
    assert (event.tenant_id, event.actor_id) == (cast.acme.id, cast.alice.id)


@pytest.mark.parametrize("role", ["", "owner", "superuser"])
def test_an_unknown_role_changes_nothing(cast: Cast, role: str) -> None:
    bob = membership(cast, "bob")
    signed_in(cast.alice).post(url("set_role", cast, bob.id), {"role": role})
    bob.refresh_from_db()
    assert bob.role == Role.MEMBER


def test_reading_the_role_address_changes_nothing(cast: Cast) -> None:
    bob = membership(cast, "bob")
    assert signed_in(cast.alice).get(url("set_role", cast, bob.id)).status_code == 302


def test_removing_someone_asks_first(cast: Cast) -> None:
    bob = membership(cast, "bob")
    page = signed_in(cast.alice).get(url("remove_person", cast, bob.id))
    assert "Remove bob@example.com?" in page.content.decode()
    assert Membership.objects.filter(id=bob.id).exists()


def test_a_removed_member_can_open_nothing(cast: Cast) -> None:
    bob = membership(cast, "bob")
    browser = signed_in(cast.bob)
    signed_in(cast.alice).post(url("remove_person", cast, bob.id))
    assert browser.get(url("people", cast)).status_code == 404
    assert AuditEvent.objects.filter(action="member.removed").exists()


def test_the_last_manager_can_not_be_demoted(cast: Cast) -> None:
    alice = membership(cast, "alice")
    response = signed_in(cast.alice).post(
        url("set_role", cast, alice.id), {"role": "member"}, follow=True
    )
    alice.refresh_from_db()
    assert alice.role == Role.TENANT_MANAGER
    assert "last tenant manager" in response.content.decode()


def test_the_last_manager_can_not_be_removed(cast: Cast) -> None:
    alice = membership(cast, "alice")
    signed_in(cast.alice).post(url("remove_person", cast, alice.id))
    assert Membership.objects.filter(id=alice.id).exists()


def test_a_manager_whose_account_is_off_does_not_count(cast: Cast) -> None:
    services.change_role(
        membership=membership(cast, "carl"), role=Role.TENANT_MANAGER, actor=cast.alice
    )
    cast.carl.is_active = False
    cast.carl.save()
    with pytest.raises(LastManager):
        services.remove_member(membership=membership(cast, "alice"), actor=cast.alice)


def test_a_manager_may_step_down_when_there_is_another(cast: Cast) -> None:
    services.change_role(
        membership=membership(cast, "carl"), role=Role.TENANT_MANAGER, actor=cast.alice
    )
    response = signed_in(cast.alice).post(
        url("set_role", cast, membership(cast, "alice").id), {"role": "member"}
    )
    assert response.headers["Location"] == "/"


@pytest.mark.django_db(transaction=True)
def test_two_managers_can_not_demote_each_other_at_once(cast: Cast) -> None:
    services.change_role(
        membership=membership(cast, "carl"), role=Role.TENANT_MANAGER, actor=cast.alice
    )
    memberships = [membership(cast, "alice"), membership(cast, "carl")]
    barrier = threading.Barrier(2)

    def demote(one: Membership) -> None:
        barrier.wait()
        try:
            services.change_role(membership=one, role=Role.MEMBER, actor=cast.alice)
        except LastManager:
            pass
        finally:
            connections.close_all()

    threads = [threading.Thread(target=demote, args=[one]) for one in memberships]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    managers = Membership.objects.filter(tenant=cast.acme, role=Role.TENANT_MANAGER)
    assert managers.count() == 1


def test_settings_are_saved_and_the_grant_is_audited(cast: Cast) -> None:
    form = {"name": "Acme & Sons", "time_zone": "Europe/Berlin", "ops_may_read_text": "on"}
    browser = signed_in(cast.alice)
    browser.post(url("settings", cast), form)
    cast.acme.refresh_from_db()
    assert (cast.acme.name, cast.acme.time_zone) == ("Acme & Sons", "Europe/Berlin")
    assert cast.acme.ops_may_read_text
    browser.post(url("settings", cast), {**form, "ops_may_read_text": ""})
    actions = set(AuditEvent.objects.values_list("action", flat=True))
    assert {"tenant.ops_reading_granted", "tenant.ops_reading_withdrawn"} <= actions


@pytest.mark.parametrize(
    "change", [{"name": ""}, {"time_zone": "Mars/Base"}, {"name": "a\0b"}, {"name": "x" * 201}]
)
def test_bad_settings_are_refused_with_words(cast: Cast, change: dict[str, str]) -> None:
    form = {"name": "Acme", "time_zone": "UTC", **change}
    response = signed_in(cast.alice).post(url("settings", cast), form)
    assert response.status_code == 200
    assert "errorlist" in response.content.decode()
    cast.acme.refresh_from_db()
    assert (cast.acme.name, cast.acme.time_zone) == ("Acme", "UTC")


def test_a_name_with_markup_is_shown_as_text(cast: Cast) -> None:
    browser = signed_in(cast.alice)
    browser.post(url("settings", cast), {"name": "<script>alert(1)</script>", "time_zone": "UTC"})
    page = browser.get(url("settings", cast)).content.decode()
    assert "<script>alert(1)" not in page
