"""Search profiles: what is in force, what is kept, and what cannot be searched with."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from pytest_django import Settings

from apps.retrieval.errors import ProfileInvalid, ProfileUnknown
from apps.retrieval.models import SearchProfile
from apps.retrieval.options import EF_SEARCH, options_for
from apps.retrieval.profiles import KNOBS, apply_profile, restore_profile, restore_settings
from apps.telemetry.models import AuditEvent
from apps.tenants.models import Tenant

MANUAL, TUNED = SearchProfile.Origin.MANUAL, SearchProfile.Origin.TUNED


def change(tenant: Tenant, **changes: float | str) -> SearchProfile:
    return apply_profile(tenant=tenant, user=None, origin=MANUAL, changes=changes)


def values_of(profile: SearchProfile) -> dict[str, object]:
    return {knob: getattr(profile, knob) for knob in KNOBS}


@pytest.mark.django_db
def test_the_first_profile_is_the_settings_with_the_changes(
    tenant: Tenant, settings: Settings
) -> None:
    settings.RERANK_CANDIDATES = 33
    profile = change(tenant, ef_search=300)
    assert profile.active
    assert (profile.ef_search, profile.rerank_candidates) == (300, 33)
    assert options_for(tenant.id).ef_search == 300


@pytest.mark.django_db
def test_the_one_before_is_kept_and_what_is_not_changed_stays(tenant: Tenant) -> None:
    first = change(tenant, ef_search=300)
    second = change(tenant, not_found_below=0.5)
    assert (second.ef_search, second.not_found_below) == (300, 0.5)
    first.refresh_from_db()
    assert not first.active
    assert SearchProfile.objects.filter(tenant=tenant, active=True).get() == second


@pytest.mark.django_db
def test_what_is_in_force_already_makes_no_second_row(tenant: Tenant) -> None:
    first = change(tenant, ef_search=300)
    assert change(tenant, ef_search=300) == first
    assert SearchProfile.objects.filter(tenant=tenant).count() == 1


@pytest.mark.django_db
def test_a_profile_carries_what_it_was_set_by(tenant: Tenant) -> None:
    evidence = uuid.uuid4()
    profile = apply_profile(
        tenant=tenant,
        user=None,
        origin=TUNED,
        changes={"ef_search": 150},
        evidence_id=evidence,
        recall_goal=0.98,
    )
    profile.refresh_from_db()
    assert (profile.origin, profile.evidence_id, profile.recall_goal) == ("tuned", evidence, 0.98)


@pytest.mark.django_db
def test_restoring_puts_an_earlier_ones_values_in_force(tenant: Tenant) -> None:
    first = change(tenant, ef_search=300, storage="bit")
    change(tenant, ef_search=500, storage="halfvec")
    again = restore_profile(tenant=tenant, user=None, profile_id=first.id)
    assert (again.active, again.origin) == (True, "restored")
    assert values_of(again) == values_of(first)
    assert SearchProfile.objects.filter(tenant=tenant).count() == 3


@pytest.mark.django_db
def test_restoring_the_one_in_force_changes_nothing(tenant: Tenant) -> None:
    profile = change(tenant, ef_search=300)
    assert restore_profile(tenant=tenant, user=None, profile_id=profile.id) == profile


@pytest.mark.django_db
def test_the_settings_can_be_gone_back_to(tenant: Tenant) -> None:
    before = options_for(tenant.id)
    profile = change(tenant, ef_search=300)
    restore_settings(tenant=tenant, user=None)
    restore_settings(tenant=tenant, user=None)
    assert options_for(tenant.id) == before
    assert SearchProfile.objects.get(tenant=tenant) == profile


@pytest.mark.django_db
def test_another_tenants_profile_is_unknown(tenant: Tenant) -> None:
    rival = Tenant.objects.create(slug="rival", name="Rival")
    theirs = change(rival, ef_search=300)
    for profile_id in (theirs.id, uuid.uuid4()):
        with pytest.raises(ProfileUnknown):
            restore_profile(tenant=tenant, user=None, profile_id=profile_id)
    assert options_for(tenant.id).ef_search != 300
    assert SearchProfile.objects.get(tenant=rival).active


@pytest.mark.django_db
def test_who_changed_how_a_tenant_is_searched_is_on_record(tenant: Tenant) -> None:
    profile = change(tenant, ef_search=300)
    restore_settings(tenant=tenant, user=None)
    events = AuditEvent.objects.filter(tenant_id=tenant.id).order_by("at")
    assert [event.action for event in events] == [
        "search_profile.manual",
        "search_profile.to_settings",
    ]
    assert {event.subject_id for event in events} == {str(profile.id)}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "changes",
    [
        {"ef_search": 0},
        {"ef_search": 1001},
        {"ef_search": 99},  # of 100 candidates
        {"ef_search": 100.0},
        {"ef_search": True},
        {"ef_search": "200"},
        {"leg_candidates": 0},
        {"leg_candidates": EF_SEARCH + 1},
        {"rerank_candidates": 0},
        {"m": 1},
        {"m": 101, "ef_construction": 300},
        {"m": 33},  # of ef_construction 64
        {"ef_construction": 31},
        {"ef_construction": 1001},
        {"storage": "vector"},
        {"not_found_below": -0.01},
        {"not_found_below": 1.01},
        {"not_found_below": float("nan")},
        {"not_found_below": "x"},
        {"active": 1},
        {"tenant_id": "x"},
    ],
)
def test_what_cannot_be_searched_with_is_refused(
    tenant: Tenant, changes: dict[str, float | str]
) -> None:
    with pytest.raises(ProfileInvalid):
        change(tenant, **changes)
    assert not SearchProfile.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_the_second_starts_from_what_the_first_has_set(tenant: Tenant) -> None:
    changes: list[dict[str, float]] = [{"ef_search": 300 + n} for n in range(4)]
    changes += [{"not_found_below": n / 10} for n in range(1, 5)]

    def apply(each: dict[str, float]) -> None:
        try:
            change(tenant, **each)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(changes)) as pool:
        list(pool.map(apply, changes))
    final = SearchProfile.objects.get(tenant=tenant, active=True)
    assert SearchProfile.objects.filter(tenant=tenant).count() == len(changes)
    assert final.ef_search >= 300
    assert final.not_found_below in {0.1, 0.2, 0.3, 0.4}
