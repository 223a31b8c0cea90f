"""Limits: who may set which, what is refused, and which of them bind a caller."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from apps.telemetry.models import AuditEvent
from apps.tenants import limits, services
from apps.tenants.errors import LimitRefused
from apps.tenants.limits import limits_for, limits_of
from apps.tenants.models import ApiKey, Limit, Measure, Membership, Role, Subject
from tests.cast import Cast, make_user

DOCUMENTS = Measure.DOCUMENTS


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[uuid.UUID]:
    """Whose limits were said to have changed."""
    heard: list[uuid.UUID] = []
    monkeypatch.setattr(limits, "on_change", [heard.append])
    return heard


def give(cast: Cast, amount: int, measure: Measure = DOCUMENTS) -> Limit:
    return services.set_limit(
        tenant=cast.acme,
        actor=cast.olga,
        given_by="ops",
        subject=Subject.TENANT,
        measure=measure,
        amount=amount,
    )


def manage(cast: Cast, amount: int, **changes: object) -> Limit:
    values: dict[str, object] = {
        "tenant": cast.acme,
        "actor": cast.alice,
        "given_by": "manager",
        "subject": Subject.TENANT,
        "measure": DOCUMENTS,
        "amount": amount,
    }
    return services.set_limit(**{**values, **changes})  # type: ignore[arg-type]


def key_of(cast: Cast, *, rival: bool = False) -> ApiKey:
    tenant, actor = (cast.rival, cast.mallory) if rival else (cast.acme, cast.alice)
    return services.create_key(tenant=tenant, name="Key", expires_at=None, actor=actor)[0]


@pytest.mark.django_db
def test_operations_give_and_managers_tighten(cast: Cast) -> None:
    give(cast, 100)
    manage(cast, 60)
    assert [rule.amount for rule in limits_for(cast.acme.id)] == [60, 100]


@pytest.mark.django_db
@pytest.mark.parametrize("subject", Subject.values)
def test_a_manager_cannot_allow_more_than_was_given(cast: Cast, subject: str) -> None:
    give(cast, 100)
    with pytest.raises(LimitRefused, match="100 documents"):
        manage(cast, 101, subject=subject)
    assert manage(cast, 100, subject=subject).amount == 100
    assert manage(cast, 10**6, measure=Measure.TOKENS_PER_DAY).amount == 10**6


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["alice", "carl", "bob", "mallory"])
def test_only_operations_give(cast: Cast, name: str) -> None:
    with pytest.raises(LimitRefused, match="Only operations"):
        manage(cast, 1, actor=getattr(cast, name), given_by="ops")


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["carl", "bob", "mallory", "olga"])
def test_only_the_tenants_own_managers_set_its_limits(cast: Cast, name: str) -> None:
    limit = manage(cast, 1)
    with pytest.raises(LimitRefused, match="own managers"):
        manage(cast, 2, actor=getattr(cast, name))
    with pytest.raises(LimitRefused):
        services.remove_limit(tenant=cast.acme, limit_id=limit.id, actor=getattr(cast, name))
    assert limits_of(cast.acme.id).get().amount == 1


@pytest.mark.django_db
def test_operations_do_not_limit_a_tenants_people(cast: Cast) -> None:
    with pytest.raises(LimitRefused, match="as a whole"):
        manage(cast, 1, actor=cast.olga, given_by="ops", subject=Subject.MEMBER)


@pytest.mark.django_db
def test_a_manager_cannot_take_away_what_operations_gave(cast: Cast) -> None:
    limit = give(cast, 5)
    with pytest.raises(LimitRefused):
        services.remove_limit(tenant=cast.acme, limit_id=limit.id, actor=cast.alice)
    services.remove_limit(tenant=cast.acme, limit_id=limit.id, actor=cast.olga)
    assert not limits_of(cast.acme.id).exists()


@pytest.mark.django_db
@pytest.mark.parametrize("subject_id", ["mallory", "0", "-1", "x", "１", "9" * 30, "1e3", " "])
def test_a_limit_of_nobody_here_is_refused(cast: Cast, subject_id: str) -> None:
    number = str(cast.mallory.id) if subject_id == "mallory" else subject_id
    with pytest.raises(LimitRefused, match="not a member"):
        manage(cast, 1, subject=Subject.MEMBER, subject_id=number)


@pytest.mark.django_db
def test_a_limit_of_another_tenants_key_is_refused(cast: Cast) -> None:
    foreign, own = key_of(cast, rival=True), key_of(cast)
    refused = [str(foreign.id), "x", own.id.hex, f"{{{own.id}}}", str(own.id).upper()]
    for subject_id in refused:
        with pytest.raises(LimitRefused, match="no such key"):
            manage(cast, 1, subject=Subject.KEY, subject_id=subject_id)
    assert manage(cast, 1, subject=Subject.KEY, subject_id=str(own.id))
    services.revoke_key(key=own, actor=cast.alice)
    with pytest.raises(LimitRefused, match="no such key"):
        manage(cast, 2, subject=Subject.KEY, subject_id=str(own.id))


@pytest.mark.django_db
@pytest.mark.parametrize("amount", [-1, 10**9 + 1, 10**15, 2**63, 10**400])
def test_absurd_amounts_are_refused_in_words(cast: Cast, amount: int) -> None:
    with pytest.raises(LimitRefused, match=r"0 or more|at most 1,000,000,000 documents"):
        manage(cast, amount)


@pytest.mark.django_db
@pytest.mark.parametrize("soft_percent", [0, -5, 101, 10**6])
def test_the_warning_comes_within_the_limit(cast: Cast, soft_percent: int) -> None:
    with pytest.raises(LimitRefused, match="1 to 100"):
        manage(cast, 5, soft_percent=soft_percent)


@pytest.mark.django_db
def test_nothing_at_all_may_be_allowed(cast: Cast) -> None:
    assert manage(cast, 0).amount == 0


@pytest.mark.django_db
def test_a_member_of_their_own_limit_is_held_to_that_alone(cast: Cast) -> None:
    manage(cast, 10, subject=Subject.MEMBER)
    manage(cast, 50, subject=Subject.MEMBER, subject_id=str(cast.bob.id))
    assert [r.amount for r in limits_for(cast.acme.id, user_id=cast.bob.id)] == [50]
    assert [r.amount for r in limits_for(cast.acme.id, user_id=cast.carl.id)] == [10]
    assert limits_for(cast.rival.id, user_id=cast.bob.id) == ()


@pytest.mark.django_db
def test_a_changed_limit_is_a_new_one_and_an_unchanged_one_is_not(cast: Cast) -> None:
    first = manage(cast, 10)
    assert manage(cast, 10).id == first.id
    assert manage(cast, 20).id != first.id
    assert limits_of(cast.acme.id).get().amount == 20


@pytest.mark.django_db
def test_changes_are_audited_with_their_figures_and_without_names(cast: Cast) -> None:
    manage(cast, 10, subject=Subject.MEMBER, subject_id=str(cast.bob.id))
    limit = limits_of(cast.acme.id).get()
    services.remove_limit(tenant=cast.acme, limit_id=limit.id, actor=cast.alice)
    trail = AuditEvent.objects.filter(tenant_id=cast.acme.id, action__startswith="limit.")
    assert list(trail.order_by("at").values_list("action", "subject_id", "actor_id")) == [
        ("limit.set.manager.documents", f"member {cast.bob.id} 10", cast.alice.id),
        ("limit.removed.manager.documents", f"member {cast.bob.id}", cast.alice.id),
    ]


@pytest.mark.django_db(transaction=True)
def test_whoever_keeps_limits_is_told_after_the_commit(cast: Cast, told: list[uuid.UUID]) -> None:
    limit = manage(cast, 10)
    assert told == [cast.acme.id]
    manage(cast, 10)
    assert told == [cast.acme.id], "nothing has changed"
    services.remove_limit(tenant=cast.acme, limit_id=limit.id, actor=cast.alice)
    services.remove_limit(tenant=cast.acme, limit_id=limit.id, actor=cast.alice)
    assert told == [cast.acme.id] * 2


@pytest.mark.django_db(transaction=True)
def test_two_managers_at_once_leave_one_limit(cast: Cast) -> None:
    anna = make_user("anna")
    Membership.objects.create(tenant=cast.acme, user=anna, role=Role.TENANT_MANAGER)
    give(cast, 100)

    def change(number: int) -> bool:
        try:
            manage(cast, 90 + number, actor=(cast.alice, anna)[number % 2])
        except LimitRefused:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(change, range(12)))
    assert done == [True] * 11 + [False], "101 is more than was given"
    assert limits_of(cast.acme.id).filter(given_by="manager").count() == 1


@pytest.mark.django_db
def test_a_limit_of_another_tenant_is_not_removed(cast: Cast) -> None:
    limit = manage(cast, 5)
    services.remove_limit(tenant=cast.rival, limit_id=limit.id, actor=cast.mallory)
    assert limits_of(cast.acme.id).exists()
