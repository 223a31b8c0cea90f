"""The cache audit, as a tenant's managers see it."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.gateway.caching.policy import Policy, policy_of
from apps.gateway.models import CachedResponse, SemanticHit
from apps.telemetry.models import AuditEvent
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.cast import Cast, signed_in

pytestmark = pytest.mark.django_db
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture
def manager(cast: Cast) -> Client:
    return signed_in(cast.alice)


def make_hit(tenant: Tenant, asked: str = "When is it open?", **fields: object) -> SemanticHit:
    with tenant_scope(tenant.id):
        response = CachedResponse.objects.create(
            tenant=tenant,
            key=asked.encode(),
            scope=b"s",
            question="When does it open?",
            payload={},
            expires_at=timezone.now() + timezone.timedelta(days=1),
        )
        return SemanticHit.objects.create(
            tenant=tenant,
            response_id=response.id,
            asked=asked,
            answered="When does it open?",
            similarity=0.9812,
            **fields,
        )


def page(browser: Client, **query: str) -> str:
    response = browser.get(reverse("gateway:cache", args=["acme"]), query)
    assert response.status_code == 200
    return str(response.content.decode())


def judge(browser: Client, hit: SemanticHit, verdict: str, **headers: str) -> str:
    url = reverse("gateway:judge_hit", args=["acme", hit.id])
    response = browser.post(url, {"verdict": verdict}, follow=not headers, headers=headers)
    assert response.status_code == 200
    return str(response.content.decode())


def left(tenant: Tenant) -> int:
    with tenant_scope(tenant.id):
        return CachedResponse.objects.count()


class TestPolicy:
    def post(self, browser: Client, **fields: str) -> int:
        return browser.post(reverse("gateway:cache", args=["acme"]), fields).status_code

    def test_it_is_saved(self, cast: Cast, manager: Client) -> None:
        fields = {"enabled": "on", "semantic": "on", "semantic_threshold": "0.92"}
        assert self.post(manager, **fields) == 302
        assert policy_of(cast.acme.id) == Policy(True, True, 0.92, 0)
        assert policy_of(cast.rival.id) == Policy()
        assert AuditEvent.objects.filter(action="cache.changed", tenant_id=cast.acme.id).exists()

    def test_switched_off_it_forgets(self, cast: Cast, manager: Client) -> None:
        make_hit(cast.acme)
        assert self.post(manager, semantic_threshold="0.97") == 302
        assert policy_of(cast.acme.id) == Policy(False, False, 0.97, 1)
        assert left(cast.acme) == 0

    @pytest.mark.parametrize(
        "threshold", ["", "0.49", "1.01", "-1", "nan", "inf", "1e999", "a lot"]
    )
    def test_an_absurd_threshold_is_refused(
        self, cast: Cast, manager: Client, threshold: str
    ) -> None:
        assert self.post(manager, enabled="on", semantic_threshold=threshold) == 200
        assert policy_of(cast.acme.id) == Policy()


class TestForgetting:
    def test_it_asks_first(self, cast: Cast, manager: Client) -> None:
        make_hit(cast.acme)
        url = reverse("gateway:forget_cache", args=["acme"])
        assert b"Forget every answer?" in manager.get(url).content
        assert left(cast.acme) == 1
        manager.post(url)
        assert (left(cast.acme), policy_of(cast.acme.id).epoch) == (0, 1)

    def test_another_tenants_stay(self, cast: Cast, manager: Client) -> None:
        make_hit(cast.rival)
        manager.post(reverse("gateway:forget_cache", args=["acme"]))
        assert left(cast.rival) == 1


class TestHits:
    def test_nobody_is_told_what_to_do_next_where_there_is_none(self, manager: Client) -> None:
        assert "Tick “Also when" in page(manager)

    def test_each_is_shown_with_both_questions_and_who_asked(
        self, cast: Cast, manager: Client
    ) -> None:
        make_hit(cast.acme, user_id=cast.bob.id)
        shown = page(manager)
        for words in ("When is it open?", "When does it open?", "0.981", "bob@example.com"):
            assert words in shown

    def test_hostile_questions_are_shown_as_they_are(self, cast: Cast, manager: Client) -> None:
        make_hit(cast.acme, HOSTILE)
        shown = page(manager)
        assert "<script>alert" not in shown
        assert "&lt;script&gt;" in shown

    def test_another_tenants_are_not_shown(self, cast: Cast, manager: Client) -> None:
        make_hit(cast.rival, "Theirs?")
        assert "Theirs?" not in page(manager)

    def test_they_come_a_page_at_a_time(self, cast: Cast, manager: Client) -> None:
        for number in range(30):
            make_hit(cast.acme, f"Question {number}?")
        assert "Question 29?" in page(manager)
        assert "Question 0?" not in page(manager)
        assert "Question 0?" in page(manager, page="2")
        assert "Question 0?" in page(manager, page="999")

    def test_a_wrong_one_loses_its_answer_and_can_be_taken_back(
        self, cast: Cast, manager: Client
    ) -> None:
        hit, other = make_hit(cast.acme), make_hit(cast.acme, "Who runs it?")
        assert "never share an answer again" in judge(manager, hit, "wrong")
        with tenant_scope(cast.acme.id):
            (kept,) = CachedResponse.objects.all()
            assert kept.id == other.response_id
        assert "never share an answer again" not in judge(manager, hit, "")

    def test_a_verdict_is_answered_with_the_part_that_changes(
        self, cast: Cast, manager: Client
    ) -> None:
        part = judge(manager, make_hit(cast.acme), "right", **{"HX-Request": "true"})
        assert part.startswith("<li")
        assert "Right" in part
        assert left(cast.acme) == 1

    def test_what_people_have_said_is_counted(self, cast: Cast, manager: Client) -> None:
        make_hit(cast.acme, "One?", verdict="right")
        make_hit(cast.acme, "Two?", verdict="wrong")
        make_hit(cast.acme, "Three?")
        shown = page(manager)
        assert "3 in all; of 2 that somebody has looked at, 1 was right and 1 wrong" in shown

    @pytest.mark.parametrize("verdict", ["perhaps", HOSTILE])
    def test_another_verdict_is_unknown(self, cast: Cast, manager: Client, verdict: str) -> None:
        hit = make_hit(cast.acme)
        url = reverse("gateway:judge_hit", args=["acme", hit.id])
        assert manager.post(url, {"verdict": verdict}).status_code == 404

    @pytest.mark.parametrize("hit_id", [0, 10**30])
    def test_another_hit_is_unknown(self, manager: Client, hit_id: int) -> None:
        url = reverse("gateway:judge_hit", args=["acme", hit_id])
        assert manager.post(url, {"verdict": "right"}).status_code == 404

    def test_another_tenants_hit_is_unknown(self, cast: Cast, manager: Client) -> None:
        hit = make_hit(cast.rival)
        url = reverse("gateway:judge_hit", args=["acme", hit.id])
        assert manager.post(url, {"verdict": "wrong"}).status_code == 404
        assert left(cast.rival) == 1
