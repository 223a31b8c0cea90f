"""Alerts: which thresholds are noted, once, and that telling them neither loses nor doubles one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from io import BytesIO
from smtplib import SMTPServerDisconnected
from typing import Any

import pytest
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.db import OperationalError, connections
from django.db.models import F
from django.utils import timezone
from pytest_django import Settings

from apps.documents.services import create_collection, delete_document, receive_upload
from apps.gateway.admission import WorstCase
from apps.gateway.admission.budgets import reserve
from apps.gateway.admission.selectors import COUNTED, window_of
from apps.gateway.alerting.addresses import AddressRefused
from apps.gateway.alerting.sending import (
    RETRY_AFTER_S,
    recipients_of,
    send_test,
    target_of,
    tell_due,
)
from apps.gateway.alerting.targets import set_target
from apps.gateway.alerting.thresholds import note_thresholds
from apps.gateway.errors import BudgetExceeded
from apps.gateway.models import AlertTarget, BudgetAlert, BudgetCounter
from apps.gateway.types import Caller, Source
from apps.gateway.using import own_use
from apps.tenants.limits import limits_for
from apps.tenants.models import Limit, Measure, Membership, Role, Subject, Tenant
from apps.tenants.scope import tenant_scope
from apps.tenants.services import create_key, set_limit
from tests.cast import Cast
from tests.documents.test_jobs import at_once
from tests.gateway.hooks import Hook

TOKENS, MONEY = Measure.TOKENS_PER_DAY, Measure.MICROS_PER_MONTH


def limit(tenant: Tenant, amount: int, measure: Measure = TOKENS, **whom: Any) -> Limit:
    values = {"subject": Subject.TENANT, "given_by": "manager", **whom}
    return Limit.objects.create(tenant=tenant, measure=measure, amount=amount, **values)


def use(tenant: Tenant, used: int, measure: Measure = TOKENS, **whom: str) -> None:
    """Say that so much was used in the window that is running."""
    start, _ = window_of(measure, timezone.now(), tenant.time_zone)
    BudgetCounter.objects.update_or_create(
        tenant_id=tenant.id,
        measure=COUNTED[measure],
        window_start=start,
        **{"subject": Subject.TENANT, "subject_id": "", **whom},
        defaults={"used": used},
    )


def noted(tenant: Tenant) -> list[tuple[str, str, int]]:
    rows = BudgetAlert.objects.filter(tenant_id=tenant.id).order_by("id")
    return list(rows.values_list("threshold", "subject_id", "used"))


def later() -> None:
    """Everything that is told again is due."""
    BudgetAlert.objects.filter(due_at__isnull=False).update(due_at=F("at") - timedelta(days=1))


@pytest.fixture
def hook(settings: Settings) -> Iterator[Hook]:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with Hook() as server:
        yield server


@pytest.mark.django_db
class TestThresholds:
    def test_what_is_below_its_threshold_is_not_noted(self, cast: Cast) -> None:
        limit(cast.acme, 100)
        use(cast.acme, 79)
        assert note_thresholds() == 0

    def test_the_soft_and_the_hard_one_are_noted_once_each(self, cast: Cast) -> None:
        limit(cast.acme, 100)
        for used in (80, 85, 99, 100, 140):
            use(cast.acme, used)
            note_thresholds()
        assert noted(cast.acme) == [("soft", "", 80), ("hard", "", 100)]

    def test_both_at_once_are_one_alert(self, cast: Cast) -> None:
        limit(cast.acme, 100)
        use(cast.acme, 500)
        note_thresholds()
        note_thresholds()
        assert noted(cast.acme) == [("hard", "", 500)]

    def test_the_next_window_is_noted_anew(self, cast: Cast) -> None:
        limit(cast.acme, 100)
        use(cast.acme, 90)
        note_thresholds()
        BudgetAlert.objects.update(window_start=F("window_start") - timedelta(days=1))
        note_thresholds()
        assert len(noted(cast.acme)) == 2

    def test_a_changed_limit_is_noted_anew(self, cast: Cast) -> None:
        values: dict[str, Any] = {
            "tenant": cast.acme,
            "actor": cast.alice,
            "given_by": "manager",
            "subject": Subject.TENANT,
            "measure": TOKENS,
        }
        use(cast.acme, 90)
        for amount in (100, 100, 105):
            set_limit(amount=amount, **values)
            note_thresholds()
        assert len(noted(cast.acme)) == 2

    def test_of_a_limit_of_nothing_nobody_is_told(self, cast: Cast) -> None:
        limit(cast.acme, 0)
        use(cast.acme, 5)
        assert note_thresholds() == 0

    def test_each_member_is_noted_by_themself(self, cast: Cast) -> None:
        limit(cast.acme, 100, subject=Subject.MEMBER)
        limit(cast.acme, 1000, subject=Subject.MEMBER, subject_id=str(cast.carl.id))
        for person in (cast.alice, cast.carl, cast.mallory):
            use(cast.acme, 90, subject=Subject.MEMBER, subject_id=str(person.id))
        note_thresholds()
        assert noted(cast.acme) == [("soft", str(cast.alice.id), 90)]

    def test_keys_are_noted_and_revoked_ones_are_not(self, cast: Cast) -> None:
        keys = [
            create_key(tenant=cast.acme, name="K", expires_at=None, actor=cast.alice)[0]
            for _ in range(2)
        ]
        limit(cast.acme, 100, MONEY, subject=Subject.KEY)
        for key in keys:
            use(cast.acme, 100, MONEY, subject=Subject.KEY, subject_id=str(key.id))
        type(keys[0]).objects.filter(id=keys[0].id).update(revoked_at=timezone.now())
        note_thresholds()
        assert noted(cast.acme) == [("hard", str(keys[1].id), 100)]

    def test_another_tenants_use_is_another_tenants(self, cast: Cast) -> None:
        limit(cast.acme, 100)
        use(cast.rival, 100)
        assert note_thresholds() == 0

    def test_a_stock_is_noted_again_once_it_has_fallen(
        self, cast: Cast, settings: Settings, tmp_path: Any
    ) -> None:
        settings.MEDIA_ROOT = tmp_path
        limit(cast.acme, 2, Measure.DOCUMENTS)
        collection = create_collection(tenant=cast.acme, user=None, name="Handbook")

        def send(number: int) -> Any:
            return receive_upload(
                tenant=cast.acme,
                collection=collection,
                user=None,
                path=f"{number}.txt",
                file=BytesIO(str(number).encode()),
            )

        send(1)
        note_thresholds()
        second = send(2)
        note_thresholds()
        note_thresholds()
        assert noted(cast.acme) == [("hard", "", 2)]
        delete_document(tenant=cast.acme, document=second, actor=None)
        note_thresholds()
        send(3)
        note_thresholds()
        assert noted(cast.acme) == [("hard", "", 2)] * 2

    def test_a_member_sees_their_own_limits_and_nobody_elses(self, cast: Cast) -> None:
        limit(cast.acme, 100)
        limit(cast.acme, 50, subject=Subject.MEMBER)
        limit(cast.acme, 9, Measure.DOCUMENTS, subject=Subject.MEMBER)
        use(cast.acme, 99)
        use(cast.acme, 20, subject=Subject.MEMBER, subject_id=str(cast.bob.id))
        found = own_use(cast.acme, cast.bob.id)
        assert sorted((each.used, each.rule.amount) for each in found) == [(0, 9), (20, 50)]


@pytest.mark.django_db
class TestRefusals:
    """The hard threshold of a budget, whose last bit is never used up."""

    def reserve(self, cast: Cast, tokens: int) -> None:
        caller = Caller(cast.acme.id, "UTC", Source.CHAT, user_id=cast.bob.id)
        rules = limits_for(cast.acme.id, user_id=cast.bob.id)
        reserve(caller, uuid.uuid4(), WorstCase(0, tokens), rules)

    def test_a_budget_that_refuses_is_noted_once(self, cast: Cast) -> None:
        limit(cast.acme, 1000)
        use(cast.acme, 950)
        for _ in range(3):
            with pytest.raises(BudgetExceeded):
                self.reserve(cast, 100)
        note_thresholds()
        assert noted(cast.acme) == [("hard", "", 950)]
        tell_due()
        assert "not enough for a request" in str(mail.outbox[0].body)

    def test_a_members_own_budget_is_noted_as_theirs(self, cast: Cast) -> None:
        limit(cast.acme, 1000, subject=Subject.MEMBER)
        use(cast.acme, 950, subject=Subject.MEMBER, subject_id=str(cast.bob.id))
        with pytest.raises(BudgetExceeded):
            self.reserve(cast, 100)
        assert noted(cast.acme) == [("hard", str(cast.bob.id), 950)]

    def test_a_request_that_is_too_large_for_what_is_left_says_nothing(self, cast: Cast) -> None:
        limit(cast.acme, 1000)
        use(cast.acme, 850)
        with pytest.raises(BudgetExceeded):
            self.reserve(cast, 600)
        use(cast.acme, 10)
        for _ in range(2):
            self.reserve(cast, 450)
        with pytest.raises(BudgetExceeded):
            self.reserve(cast, 450)
        assert noted(cast.acme) == []

    def test_a_refusal_stands_though_it_cannot_be_noted(
        self, cast: Cast, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limit(cast.acme, 1000)
        use(cast.acme, 950)

        def broken(*_: Any, **__: Any) -> Any:
            raise OperationalError

        monkeypatch.setattr(BudgetAlert.objects, "bulk_create", broken)
        with pytest.raises(BudgetExceeded):
            self.reserve(cast, 100)


@pytest.mark.django_db(transaction=True)
def test_two_clocks_at_once_note_and_tell_once(cast: Cast) -> None:
    limit(cast.acme, 100)
    use(cast.acme, 100)

    def run() -> None:
        note_thresholds()
        tell_due()
        connections.close_all()

    at_once([run] * 4)
    assert len(noted(cast.acme)) == 1
    assert len(mail.outbox) == 1


@pytest.mark.django_db
class TestTelling:
    @pytest.fixture(autouse=True)
    def _met(self, cast: Cast) -> None:
        limit(cast.acme, 2_000_000, MONEY)
        use(cast.acme, 1_700_000, MONEY)
        note_thresholds()

    def test_managers_are_mailed_in_words(self, cast: Cast) -> None:
        cast.acme.name = "Acme\r\nBcc: everybody@example.com"
        cast.acme.save()
        tell_due()
        (message,) = mail.outbox
        assert message.recipients() == ["alice@example.com"]
        assert message.subject.endswith("85 % of a limit is used (money for this month)")
        assert "1.70 USD of 2.00 USD (85 %)" in str(message.body)
        assert "/t/acme/limits/" in str(message.body)
        assert "(UTC)" in str(message.body)

    def test_it_is_told_once(self, cast: Cast) -> None:
        for _ in range(3):
            note_thresholds()
            tell_due()
            later()
        assert len(mail.outbox) == 1

    def test_others_may_be_told_instead_of_the_managers(self, cast: Cast) -> None:
        with tenant_scope(cast.acme.id):
            AlertTarget.objects.create(
                tenant=cast.acme, mail_managers=False, emails=["a@x.example", "A@X.example"]
            )
        tell_due()
        assert len(mail.outbox[0].recipients()) == 1

    def test_nobody_to_tell_is_no_failure(self, cast: Cast) -> None:
        Membership.objects.filter(tenant=cast.acme).update(role=Role.MEMBER)
        tell_due()
        alert = BudgetAlert.objects.get()
        assert (alert.mail_error, alert.hook_error, alert.due_at) == ("nobody", "nobody", None)
        assert not mail.outbox

    def test_a_manager_whose_account_is_off_is_not_mailed(self, cast: Cast) -> None:
        cast.alice.is_active = False
        cast.alice.save()
        assert recipients_of(cast.acme, target_of(cast.acme)) == []

    def test_a_mail_server_that_is_down_loses_and_doubles_nothing(
        self, cast: Cast, hook: Hook, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _call(cast, hook)
        with monkeypatch.context() as down:
            down.setattr(EmailBackend, "send_messages", _refused)
            tell_due()
        alert = BudgetAlert.objects.get()
        assert (alert.mail_error, alert.attempts, len(hook.requests)) == ("mail_server", 1, 1)
        tell_due()
        assert BudgetAlert.objects.get().attempts == 1, "not before its time"
        later()
        tell_due()
        later()
        tell_due()
        assert (len(mail.outbox), len(hook.requests)) == (1, 1)
        assert BudgetAlert.objects.get().due_at is None

    def test_a_webhook_that_fails_doubles_no_mail_and_is_given_up(
        self, cast: Cast, hook: Hook
    ) -> None:
        hook.how = 500
        _call(cast, hook)
        for _ in range(len(RETRY_AFTER_S) + 3):
            tell_due()
            later()
        alert = BudgetAlert.objects.get()
        assert len(hook.requests) == alert.attempts == len(RETRY_AFTER_S) + 1
        assert (alert.hook_error, alert.hooked_at, alert.due_at) == ("http_500", None, None)
        assert len(mail.outbox) == 1

    def test_a_webhook_is_told_in_figures(self, cast: Cast, hook: Hook) -> None:
        _call(cast, hook)
        tell_due()
        (payload,) = hook.payloads
        assert payload["type"] == "limit.soft"
        assert payload["limit"] == {
            "measure": "micros_per_month",
            "subject": "tenant",
            "subject_id": "",
            "amount": 2_000_000,
        }
        assert (payload["used"], payload["percent"], payload["currency"]) == (1_700_000, 85, "USD")
        assert payload["resets_at"] > payload["window_start"]
        assert BudgetAlert.objects.get().hooked_at is not None

    def test_a_worker_that_died_over_it_is_made_up_for(
        self, cast: Cast, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as dying:
            dying.setattr(EmailBackend, "send_messages", _killed)
            with pytest.raises(KeyboardInterrupt):
                tell_due()
        later()
        tell_due()
        assert len(mail.outbox) == 1

    def test_a_tenant_that_is_gone_is_not_told(self, cast: Cast) -> None:
        BudgetAlert.objects.update(tenant_id=uuid.uuid4())
        tell_due()
        assert BudgetAlert.objects.get().due_at is None

    def test_a_test_goes_to_both_at_once(self, cast: Cast, hook: Hook) -> None:
        _call(cast, hook)
        assert send_test(tenant=cast.acme) == ("", "")
        assert hook.payloads[0]["type"] == "limit.test"
        assert "a test" in mail.outbox[0].subject
        hook.how = 503
        assert send_test(tenant=cast.acme) == ("", "http_503")


@pytest.mark.django_db
class TestTargets:
    def test_a_private_address_is_refused_when_it_is_saved(self, cast: Cast) -> None:
        with pytest.raises(AddressRefused):
            set_target(
                tenant=cast.acme,
                actor=cast.alice,
                mail_managers=True,
                webhook_url="https://169.254.169.254/latest/meta-data",
            )
        assert target_of(cast.acme).webhook_url == ""

    def test_one_that_became_private_is_refused_when_it_is_called(self, cast: Cast) -> None:
        with tenant_scope(cast.acme.id):
            AlertTarget.objects.create(tenant=cast.acme, webhook_url="https://127.0.0.1/")
        assert send_test(tenant=cast.acme)[1] == "address_refused"

    def test_a_secret_stays_until_another_is_asked_for(self, cast: Cast, hook: Hook) -> None:
        secrets = [
            set_target(
                tenant=cast.acme,
                actor=cast.alice,
                mail_managers=True,
                webhook_url=hook.url,
                new_secret=new,
            ).webhook_secret
            for new in (False, False, True)
        ]
        assert secrets[0] == secrets[1] != secrets[2]
        assert len(secrets[0]) >= 40


def _call(cast: Cast, hook: Hook) -> None:
    set_target(tenant=cast.acme, actor=cast.alice, mail_managers=True, webhook_url=hook.url)


def _refused(*_: Any) -> None:
    raise SMTPServerDisconnected


def _killed(*_: Any) -> None:
    raise KeyboardInterrupt
