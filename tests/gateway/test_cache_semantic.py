"""Answers to questions that mean the same: what is compared, what is kept apart, what is shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from django.db import connection

from apps.gateway.caching import auditing, semantic, serving
from apps.gateway.caching.policy import set_policy
from apps.gateway.caching.sameness import differs_in_substance
from apps.gateway.caching.sweeping import sweep
from apps.gateway.models import CachedResponse, SemanticHit
from apps.inference import errors, registry
from apps.inference.types import Vectors
from apps.tenants.aio import in_thread
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.cast import make_user
from tests.gateway.answers import ANSWER, Asked, Upstream, Words, ask, asked, caller_of

SAME = [
    ("How do I reset my password?", "How can I reset my password?"),
    ("What is the refund policy?", "what is the policy on refunds"),
    ("Are dogs allowed in the office?", "Is a dog allowed in the office?"),
    ("Tell me what the harbour's fees are", "What are the fees of the harbour?"),
    ("How many days of leave do I get in 2023?", "how many days of leave do we get in 2023"),
    ("What does Anna earn?", "what does anna earn"),
    ("What is Anna's salary?", "What is the salary of Anna?"),
    ("How much is 1,000 kg?", "How much is 1000 kg?"),
    ("What is “net zero”?", "what is “Net Zero” ?"),
]
APART = [
    ("How many days of leave in 2023?", "How many days of leave in 2024?"),
    ("Is smoking allowed?", "Is smoking not allowed?"),
    ("Can I work from home?", "Can't I work from home?"),
    ("Can I work from home?", "Can I not work from home?"),
    ("Is it with breakfast?", "Is it without breakfast?"),
    ("What does Anna earn?", "What does Hanna earn?"),
    ("what does anna earn", "what does hanna earn"),
    ("What is the budget for Berlin?", "What is the budget for Munich?"),
    ("Who is Müller?", "Who is Möller?"),
    ('What does "alpha" mean?', 'What does "beta" mean?'),
    ("What is the minimum wage?", "What is the maximum wage?"),
    ("How do I enable two-factor login?", "How do I disable two-factor login?"),
    ("Is it possible to cancel?", "Is it impossible to cancel?"),
    ("Is that insured?", "Is that uninsured?"),
    ("How long is the harbour open?", "How often is the harbour open?"),
    ("Who approves leave?", "When is leave approved?"),
    ("What is rule A4?", "What is rule A5?"),
    ("What is 1.5 in metres?", "What is 15 in metres?"),
    ("Notice after three months?", "Notice after six months?"),
    ("What happened in the first quarter?", "What happened in the third quarter?"),
    ("How long is the leave at Acme?", "Wie lang ist der Urlaub bei Acme?"),
    ("Is it allowed?", "Ist es nicht erlaubt?"),
    ("Affects of the rule?", "Effects of the rule?"),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=str)
def test_the_same_in_other_words(one: str, other: str) -> None:
    assert not differs_in_substance(one, other)
    assert not differs_in_substance(other, one)


@pytest.mark.parametrize(("one", "other"), APART, ids=str)
def test_something_else_in_nearly_the_same_words(one: str, other: str) -> None:
    assert differs_in_substance(one, other)
    assert differs_in_substance(other, one)


@pytest.mark.parametrize(
    "text", ["", " ", "?!", "\0", "\ud800", "'" * 5000, "“" * 5000, "a," * 5000]
)
def test_hostile_questions_are_compared_too(text: str) -> None:
    assert not differs_in_substance(text, text)


def test_long_questions_are_compared_quickly() -> None:
    one = " ".join(f"w{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{n % 7}rd" for n in range(600))
    assert differs_in_substance(one, one.replace("w", "v"))


class Directions:
    """Every text in the same direction, but for those that are given another."""

    model_id = "directions"
    dimensions = 3
    max_tokens = 256

    def __init__(self) -> None:
        self.at: dict[str, float] = {}  # degrees
        self.failure: Exception | None = None

    def embed_query(self, text: str) -> Vectors:
        if self.failure is not None:
            raise self.failure
        angle = np.deg2rad(self.at.get(text, 0.0))
        return np.array([np.cos(angle), np.sin(angle), 0], np.float32)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        raise NotImplementedError


FIRST, OTHER = "When does the harbour open?", "When is it that the harbour opens?"


@pytest.mark.django_db(transaction=True)
class TestServing:
    @pytest.fixture
    def acme(self) -> Tenant:
        serving._epochs.clear()
        tenant = Tenant.objects.create(slug="acme", name="Acme")
        decide(tenant, semantic=True)
        return tenant

    @pytest.fixture(autouse=True)
    def directions(self, monkeypatch: pytest.MonkeyPatch) -> Directions:
        stand_in = Directions()
        monkeypatch.setattr(registry, "get_embedder", lambda: stand_in)
        return stand_in

    async def ask(self, tenant: Tenant, question: str, **changes: object) -> Asked:
        cacheable = asked(question, **{"comparable": True, **changes})
        return await ask(tenant, Upstream(), cacheable)

    async def test_an_answer_is_given_to_the_same_question_in_other_words(
        self, acme: Tenant
    ) -> None:
        await self.ask(acme, FIRST)
        came = await self.ask(acme, OTHER)
        assert (came.words, came.result, came.note.saved_micros) == (list(ANSWER), "semantic", 70)
        assert came.use.similarity == pytest.approx(1.0)

    async def test_not_where_the_tenant_has_not_chosen_it(self, acme: Tenant) -> None:
        await in_thread(decide, acme, semantic=False)
        await self.ask(acme, FIRST)
        assert (await self.ask(acme, OTHER)).result == "miss"
        (first, _) = await in_thread(entries, acme)
        assert (first.question, first.vector) == ("", None)

    async def test_not_below_the_threshold(self, acme: Tenant, directions: Directions) -> None:
        directions.at[OTHER] = 15.0  # cosine .966
        await self.ask(acme, FIRST)
        assert (await self.ask(acme, OTHER)).result == "miss"
        await in_thread(decide, acme, semantic=True, threshold=0.96)
        directions.at[third := "When is it the harbour opens?"] = 30.0
        came = await self.ask(acme, third)  # as near to OTHER as that is to FIRST
        assert (came.result, came.use.similarity) == ("semantic", pytest.approx(0.966, abs=1e-3))

    @pytest.mark.parametrize(
        "changes",
        [{"comparable": False}, {"scope": {"model": "tgi", "collections": {"a": 2}}}],
        ids=["with history", "newer documents"],
    )
    async def test_not_in_another_scope(self, acme: Tenant, changes: dict[str, object]) -> None:
        await self.ask(acme, FIRST)
        assert (await self.ask(acme, OTHER, **changes)).result == "miss"

    async def test_not_to_another_tenant(self, acme: Tenant) -> None:
        await self.ask(acme, FIRST)
        rival = await in_thread(Tenant.objects.create, slug="rival", name="Rival")
        await in_thread(decide, rival, semantic=True)
        assert (await self.ask(rival, OTHER)).result == "miss"

    @pytest.mark.parametrize(("one", "other"), APART[:6], ids=str)
    async def test_not_where_a_cosine_cannot_see_the_difference(
        self, acme: Tenant, one: str, other: str
    ) -> None:
        await self.ask(acme, one)
        assert (await self.ask(acme, other)).result == "miss"

    async def test_not_by_vectors_of_another_model(
        self, acme: Tenant, directions: Directions
    ) -> None:
        await self.ask(acme, FIRST)
        directions.model_id = "others"
        assert (await self.ask(acme, OTHER)).result == "miss"

    async def test_without_the_embedder_it_is_a_miss_with_a_reason(
        self, acme: Tenant, directions: Directions
    ) -> None:
        directions.failure = errors.Unavailable("down")
        came = await self.ask(acme, FIRST)
        assert (came.words, came.result, came.note.reason) == (
            *(list(ANSWER), "miss", "embedder_down"),
        )
        assert (await self.ask(acme, FIRST)).result == "hit"

    @pytest.mark.parametrize(
        "question", ["a\0b", "\ud800", "x" * 100_000], ids=["NUL", "half", "long"]
    )
    async def test_hostile_questions_are_not_compared(self, acme: Tenant, question: str) -> None:
        assert (await self.ask(acme, question)).result == "miss"
        (entry,) = await in_thread(entries, acme)
        assert entry.question == ""

    async def test_only_the_newest_questions_are_compared(
        self, acme: Tenant, monkeypatch: pytest.MonkeyPatch, directions: Directions
    ) -> None:
        monkeypatch.setattr(semantic, "COMPARED_MAX", 1)
        await self.ask(acme, FIRST)
        directions.at["Who runs it?"] = 90.0
        await self.ask(acme, "Who runs it?")
        assert (await self.ask(acme, OTHER)).result == "miss"

    async def test_every_such_answer_is_a_row_to_look_at(self, acme: Tenant) -> None:
        bob = await in_thread(make_user, "bob")
        await self.ask(acme, FIRST)
        caller = caller_of(acme, user_id=bob.id)
        await ask(acme, Upstream(), asked(OTHER, comparable=True), caller=caller)
        ((hit, whose),) = await in_thread(audit, acme)
        assert (hit.asked, hit.answered, hit.verdict) == (OTHER, FIRST, "")
        assert (hit.similarity, whose) == (pytest.approx(1.0), "bob@example.com")

    async def test_a_wrong_pair_is_never_served_again_until_that_is_undone(
        self, acme: Tenant
    ) -> None:
        await self.ask(acme, FIRST)
        await self.ask(acme, OTHER)
        ((hit, _),) = await in_thread(audit, acme)
        await in_thread(judge, acme, hit, "wrong")
        # The entry is gone, and the pair keeps apart whichever is asked first.
        assert await in_thread(entries, acme) == []
        assert (await self.ask(acme, OTHER)).result == "miss"
        assert (await self.ask(acme, FIRST)).result == "miss"
        await in_thread(judge, acme, hit, "")
        assert (await self.ask(acme, "When is it that the Harbour opens?")).result == "semantic"

    async def test_of_old_hits_only_the_wrong_ones_are_kept(self, acme: Tenant) -> None:
        await self.ask(acme, FIRST)
        for question in (OTHER, OTHER + " please"):
            await self.ask(acme, question)
        rows = await in_thread(audit, acme)
        assert len(rows) == 2
        await in_thread(judge, acme, rows[0][0], "wrong")
        await in_thread(age_hits, acme)
        await in_thread(sweep)
        assert [hit.id for hit, _ in await in_thread(audit, acme)] == [rows[0][0].id]

    async def test_an_entry_that_cannot_be_read_is_dropped_and_not_shown(
        self, acme: Tenant
    ) -> None:
        class Unreadable(Words):
            def decode(self, payload: object) -> list[str]:
                raise ValueError("no")

        await self.ask(acme, FIRST)
        came = await ask(acme, Upstream(), asked(OTHER, comparable=True), codec=Unreadable())
        assert came.result == "miss"
        assert await in_thread(audit, acme) == []


def decide(tenant: Tenant, *, semantic: bool, threshold: float = 0.97) -> None:
    set_policy(
        tenant=tenant, actor=None, enabled=True, semantic=semantic, semantic_threshold=threshold
    )


def entries(tenant: Tenant) -> list[CachedResponse]:
    with tenant_scope(tenant.id):
        return list(CachedResponse.objects.order_by("created_at"))


def audit(tenant: Tenant) -> list[tuple[SemanticHit, str]]:
    with tenant_scope(tenant.id):
        hits = list(auditing.hits_of(tenant.id))
        names = auditing.names_of(tenant.id, hits)
    return [(hit, names[hit.id]) for hit in hits]


def judge(tenant: Tenant, hit: SemanticHit, verdict: str) -> None:
    auditing.judge(tenant=tenant, actor=None, hit_id=hit.id, verdict=verdict)


def age_hits(tenant: Tenant) -> None:
    with tenant_scope(tenant.id), connection.cursor() as cursor:
        cursor.execute("UPDATE gateway_semantichit SET at = at - interval '91 days'")
