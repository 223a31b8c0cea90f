"""The response cache: what is given again, to whom, and what is not."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from django.db import OperationalError, connection
from pytest_django import Settings

from apps.documents.models import Collection, Document, DocumentState
from apps.documents.services import delete_collection, delete_document, delete_tenant
from apps.gateway.caching import Cacheable, keys, policy, serving, store
from apps.gateway.caching.policy import BYPASSES, Policy, forget_everything, set_policy
from apps.gateway.caching.sweeping import sweep
from apps.gateway.models import CachedResponse
from apps.tenants.aio import in_thread
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.gateway.answers import ANSWER, QUESTION, Upstream, Words, ask, asked, caller_of, until
from tests.retrieval.corpus import make_collection, make_document

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def acme() -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme")


@pytest.fixture
def rival() -> Tenant:
    return Tenant.objects.create(slug="rival", name="Rival")


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    serving._epochs.clear()


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


def entries(tenant: Tenant) -> list[CachedResponse]:
    with tenant_scope(tenant.id):
        return list(CachedResponse.objects.order_by("created_at"))


def change_entries(tenant: Tenant, statement: str, *arguments: object) -> None:
    with tenant_scope(tenant.id), connection.cursor() as cursor:
        cursor.execute(f"UPDATE gateway_cachedresponse SET {statement}", arguments)  # noqa: S608


class TestKeys:
    TENANT = uuid.UUID(int=1)

    def key(self, cacheable: Cacheable, tenant: uuid.UUID = TENANT, epoch: int = 0) -> bytes:
        return keys.keys_of(tenant, epoch, cacheable).entry

    @pytest.mark.parametrize(
        "other",
        [
            asked("When does the harbour open? "),
            asked("when does the harbour open?"),
            asked("When does the harbour open?\0"),
            Cacheable(QUESTION.question, {"model": "tgi", "collections": {"a": 2}}),
            Cacheable(QUESTION.question, {"model": "tgi", "collections": {"b": 1}}),
            Cacheable(QUESTION.question, {"model": "tgi", "collections": {}}),
            Cacheable(QUESTION.question, {"model": "tgi"}),
            Cacheable("", {"model": "tgi", "collections": {"a": 1}, "q": QUESTION.question}),
            Cacheable('"],{}', {}),
        ],
        ids=range(9),
    )
    def test_another_question_or_scope_has_another_key(self, other: Cacheable) -> None:
        assert self.key(other) != self.key(QUESTION)

    def test_another_tenant_or_time_has_another_key(self) -> None:
        others = [
            self.key(QUESTION, uuid.UUID(int=2)),
            self.key(QUESTION, epoch=1),
            keys.keys_of(self.TENANT, 0, QUESTION).scope,
            self.key(asked("")),
        ]
        assert len({self.key(QUESTION), *others}) == 5

    def test_the_order_of_a_scopes_fields_does_not_matter(self) -> None:
        turned = {"collections": {"a": 1}, "model": "tgi"}
        assert self.key(Cacheable(QUESTION.question, turned)) == self.key(QUESTION)

    def test_all_that_characters_can_be_is_kept_apart(self) -> None:
        texts = ["\ud83d\ude00", "😀", "\ud83d", "\\ud83d", "\0", "\\u0000", "", "é", "e\u0301"]
        assert len({self.key(asked(text)) for text in texts}) == len(texts)

    @pytest.mark.parametrize("scope", [{"t": float("nan")}, {"t": {1, 2}}, {"t": uuid.UUID(int=3)}])
    async def test_what_is_no_json_is_not_cached_but_answered(
        self, acme: Tenant, upstream: Upstream, scope: dict[str, Any]
    ) -> None:
        came = await ask(acme, upstream, Cacheable("Why?", scope))
        assert (came.words, came.note.reason) == (list(ANSWER), "unfit")

    async def test_a_scope_as_deep_as_a_well_is_not_cached_but_answered(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        scope: dict[str, Any] = {}
        for _ in range(100_000):
            scope = {"a": scope}
        came = await ask(acme, upstream, Cacheable("Why?", scope))
        assert (came.words, came.note.reason) == (list(ANSWER), "unfit")
        while scope:  # or its end would be too deep for the garbage collector as well
            scope = scope["a"]


class TestHits:
    async def test_the_same_question_is_answered_once(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        first, second = await ask(acme, upstream), await ask(acme, upstream)
        assert (first.result, second.result) == ("miss", "hit")
        assert first.words == second.words == list(ANSWER)
        assert upstream.begun == 1

    async def test_a_hit_says_what_it_saved(self, acme: Tenant, upstream: Upstream) -> None:
        await ask(acme, upstream, codec=Words(cost_micros=123, total_ms=60_000))
        note = (await ask(acme, upstream)).note
        assert note.saved_micros == 123
        assert 30_000 < note.saved_ms < 60_000

    async def test_the_call_knows_that_it_was_missing(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        await ask(acme, upstream)
        assert [note.result for note in upstream.notes] == ["miss"]

    async def test_a_hit_is_one_query(self, acme: Tenant, upstream: Upstream) -> None:
        await ask(acme, upstream)
        seen: list[str] = []

        def noted(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            seen.append(sql)
            return execute(sql, *rest)

        find = store.find

        def counted(*arguments: Any) -> Any:
            with connection.execute_wrapper(noted):
                return find(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "find", counted)
            assert (await ask(acme, upstream)).result == "hit"
        assert len(seen) == 1

    async def test_a_hit_takes_little_work(self, acme: Tenant, upstream: Upstream) -> None:
        """The first word out in under 10 ms: here the processor's time, of which it is most."""
        await ask(acme, upstream)
        await ask(acme, upstream)
        start = process_time()
        for _ in range(50):
            assert (await ask(acme, upstream, stop_after=1)).result == "hit"
        assert (process_time() - start) / 50 < 0.010

    async def test_another_question_is_asked_again(self, acme: Tenant, upstream: Upstream) -> None:
        await ask(acme, upstream)
        assert (await ask(acme, upstream, asked("Who runs it?"))).result == "miss"

    async def test_a_new_version_of_a_collection_is_asked_again(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        await ask(acme, upstream)
        newer = Cacheable(QUESTION.question, {"model": "tgi", "collections": {"a": 2}})
        assert (await ask(acme, upstream, newer)).result == "miss"


class TestTenants:
    async def test_two_tenants_with_the_same_everything_share_nothing(
        self, acme: Tenant, rival: Tenant
    ) -> None:
        ours, theirs = Upstream(("Ours.",)), Upstream(("Theirs.",))
        await ask(acme, ours)
        for _ in range(2):
            assert (await ask(rival, theirs)).words == ["Theirs."]
        assert (await ask(acme, ours)).words == ["Ours."]
        assert (ours.begun, theirs.begun) == (1, 1)

    async def test_nor_do_they_while_the_answer_is_being_made(
        self, acme: Tenant, rival: Tenant
    ) -> None:
        ours, theirs = Upstream(("Ours.",)), Upstream(("Theirs.",))
        asking = [ask(acme, ours), ask(rival, theirs), ask(acme, ours), ask(rival, theirs)]
        words = [came.words for came in await asyncio.gather(*asking)]
        assert words == [["Ours."], ["Theirs."]] * 2

    async def test_a_stolen_key_opens_nothing(
        self, acme: Tenant, rival: Tenant, upstream: Upstream
    ) -> None:
        """Row-level security, should ever a key of another tenant be asked for."""
        await ask(acme, upstream)
        key = keys.keys_of(acme.id, 0, QUESTION).entry

        def find() -> object:
            with tenant_scope(rival.id):
                return store.find(acme.id, key)[1]

        assert await in_thread(find) is None

    async def test_people_with_other_collections_share_nothing(self, acme: Tenant) -> None:
        few, many = Upstream(("Few.",)), Upstream(("Many.",))
        open_to_one = Cacheable(QUESTION.question, {"collections": {"a": 1}})
        open_to_other = Cacheable(QUESTION.question, {"collections": {"a": 1, "b": 1}})
        await ask(acme, many, open_to_other)
        assert (await ask(acme, few, open_to_one)).words == ["Few."]


class TestWhatIsNotKept:
    async def test_an_answer_that_the_codec_leaves_out(self, acme: Tenant) -> None:
        cut_off = Upstream(("The harbour",))
        await ask(acme, cut_off)
        assert (await ask(acme, cut_off)).result == "miss"
        assert await in_thread(entries, acme) == []

    async def test_an_answer_that_ends_in_an_error(self, acme: Tenant) -> None:
        upstream = Upstream(failure=RuntimeError("broken"), fail_after=2)
        came = await ask(acme, upstream)
        assert (came.words, str(came.error)) == (["The harbour", " opens"], "broken")
        upstream.failure = None
        assert (await ask(acme, upstream)).result == "miss"

    async def test_an_answer_that_nobody_waited_for(self, acme: Tenant, upstream: Upstream) -> None:
        upstream.words = ["word"] * 1000 + ["end."]
        await ask(acme, upstream, stop_after=1)
        assert (upstream.running, upstream.cut_off) == (0, 1)
        assert await in_thread(entries, acme) == []

    @pytest.mark.parametrize(
        "word", ["x" * 10_000_000 + ".", "\0.", "\ud800."], ids=["10MB", "NUL", "surrogate"]
    )
    async def test_an_answer_that_cannot_be_stored(self, acme: Tenant, word: str) -> None:
        upstream = Upstream((word,))
        for _ in range(2):
            came = await ask(acme, upstream)
            assert (came.words, came.result) == ([word], "miss")

    @pytest.mark.parametrize("question", ["a\0b", "\ud800", "x" * 1_000_000])
    async def test_a_hostile_question_is_cached_as_any(
        self, acme: Tenant, upstream: Upstream, question: str
    ) -> None:
        await ask(acme, upstream, asked(question))
        assert (await ask(acme, upstream, asked(question))).result == "hit"

    async def test_an_entry_that_cannot_be_read_is_dropped(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        await ask(acme, upstream)
        await in_thread(change_entries, acme, "payload = %s", json.dumps(["garbage"]))
        assert (await ask(acme, upstream)).result == "miss"
        assert (await ask(acme, upstream)).result == "hit"

    @pytest.mark.parametrize("word", sorted(BYPASSES))
    async def test_what_must_not_be_cached_is_not(
        self, acme: Tenant, upstream: Upstream, word: str
    ) -> None:
        for _ in range(2):
            came = await ask(acme, upstream, asked("Why?", bypass=word))
            assert (came.result, came.note.reason) == ("bypassed", word)
        assert upstream.begun == 2

    async def test_a_reason_is_never_text(self, acme: Tenant, upstream: Upstream) -> None:
        came = await ask(acme, upstream, asked("Why?", bypass="Anna asked about her salary"))
        assert came.note.reason == "other"

    async def test_nothing_is_cached_where_the_site_has_none(
        self, acme: Tenant, upstream: Upstream, settings: Settings
    ) -> None:
        settings.RESPONSE_CACHE_TTL_S = 0
        came = await ask(acme, upstream)
        assert (came.result, came.note.reason) == ("bypassed", "switched_off")


class TestForgetting:
    async def test_an_answer_expires_by_the_databases_clock(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        await ask(acme, upstream)
        await in_thread(change_entries, acme, "expires_at = now() - interval '1 second'")
        assert (await ask(acme, upstream)).result == "miss"
        (entry,) = await in_thread(entries, acme)  # in place of the old one
        assert (entry.expires_at - entry.created_at).total_seconds() == 86_400

    async def test_a_clock_that_jumps_here_changes_nothing(
        self, acme: Tenant, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await ask(acme, upstream)
        monkeypatch.setattr("time.time", lambda: 9e9)
        assert (await ask(acme, upstream)).result == "hit"

    async def test_what_expired_is_swept_tenant_by_tenant(
        self, acme: Tenant, rival: Tenant, upstream: Upstream
    ) -> None:
        for tenant in (acme, rival):
            await ask(tenant, upstream)
            await ask(tenant, upstream, asked("Who runs it?"))
            await in_thread(
                change_entries, tenant, "expires_at = now() WHERE question = '' AND id IN "
                "(SELECT id FROM gateway_cachedresponse LIMIT 1)"
            )  # fmt: skip
        await in_thread(sweep)
        assert [len(await in_thread(entries, each)) for each in (acme, rival)] == [1, 1]

    async def test_a_tenant_keeps_so_many_and_no_more(
        self, acme: Tenant, upstream: Upstream, settings: Settings
    ) -> None:
        settings.RESPONSE_CACHE_MAX_ENTRIES = 3
        for number in range(5):
            await ask(acme, upstream, asked(f"Question {number}?"))
        assert len(await in_thread(entries, acme)) == 3
        assert (await ask(acme, upstream, asked("Question 4?"))).result == "hit"
        assert (await ask(acme, upstream, asked("Question 0?"))).result == "miss"

    async def test_everything_is_forgotten_at_once(
        self, acme: Tenant, rival: Tenant, upstream: Upstream
    ) -> None:
        for tenant in (acme, rival):
            await ask(tenant, upstream)
        await in_thread(forget_everything, tenant=acme, actor=None)
        assert await in_thread(entries, acme) == []
        assert (await ask(acme, upstream)).result == "miss"
        assert (await ask(acme, upstream)).result == "hit"
        assert (await ask(rival, upstream)).result == "hit"

    async def test_what_was_being_written_then_is_not_given_again(self, acme: Tenant) -> None:
        upstream = Upstream(gate=asyncio.Event())
        asking = asyncio.create_task(ask(acme, upstream))
        await until(lambda: upstream.begun == 1)
        await in_thread(forget_everything, tenant=acme, actor=None)
        assert upstream.gate is not None
        upstream.gate.set()
        assert (await asking).words == list(ANSWER)
        assert (await ask(acme, upstream)).result == "miss"


class TestDeletion:
    """A document that is deleted is not quoted by what is kept either."""

    @pytest.fixture
    async def kept(self, acme: Tenant, upstream: Upstream) -> tuple[Document, Collection]:
        """Answers about two collections, of which one has a document."""
        about, other = [await in_thread(make_collection, acme, name) for name in ("A", "B")]
        document = await in_thread(make_document, about, ["Text."], state=DocumentState.READY)
        for number, collection in enumerate((about, other)):
            caller = caller_of(acme, collection_ids=(collection.id,))
            await ask(acme, upstream, asked(f"Question {number}?"), caller=caller)
        return document, other

    async def test_with_a_document_what_may_quote_it_goes(
        self, acme: Tenant, kept: tuple[Document, Collection]
    ) -> None:
        document, other = kept
        await in_thread(delete_document, tenant=acme, document=document, actor=None)
        (left,) = await in_thread(entries, acme)
        assert left.collection_ids == [other.id]

    async def test_and_with_a_collection(
        self, acme: Tenant, kept: tuple[Document, Collection]
    ) -> None:
        _, other = kept
        await in_thread(delete_collection, tenant=acme, collection=other, actor=None)
        (left,) = await in_thread(entries, acme)
        assert left.collection_ids == [kept[0].collection_id]

    async def test_and_with_a_tenant(self, acme: Tenant, kept: object) -> None:
        await in_thread(delete_tenant, tenant=acme, actor=None)
        assert await in_thread(entries, acme) == []


class TestPolicies:
    async def test_a_tenant_that_declines_has_no_cache_and_what_it_held_is_gone(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        await ask(acme, upstream)
        await in_thread(decide, acme, enabled=False)
        came = await ask(acme, upstream)
        assert (came.result, came.note.reason) == ("bypassed", "opted_out")
        assert await in_thread(entries, acme) == []
        await in_thread(decide, acme, enabled=True)
        assert (await ask(acme, upstream)).result == "miss"

    async def test_nor_is_anything_shared_meanwhile(self, acme: Tenant) -> None:
        await in_thread(decide, acme, enabled=False)
        upstream = Upstream()
        await asyncio.gather(*(ask(acme, upstream) for _ in range(4)))
        assert upstream.begun == 4

    def test_who_has_decided_nothing_has_the_models_defaults(self, acme: Tenant) -> None:
        assert policy.policy_of(acme.id) == Policy()
        forget_everything(tenant=acme, actor=None)
        assert policy.policy_of(acme.id) == Policy(epoch=1)


def decide(tenant: Tenant, *, enabled: bool) -> None:
    set_policy(tenant=tenant, actor=None, enabled=enabled, semantic=False, semantic_threshold=0.97)


class TestFaults:
    @pytest.fixture(params=[OperationalError("gone"), TimeoutError()], ids=["gone", "slow"])
    def _broken(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*arguments: object) -> None:
            raise request.param

        monkeypatch.setattr(store, "find", fail)

    @pytest.mark.usefixtures("_broken")
    async def test_without_its_table_questions_are_answered(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        came = await ask(acme, upstream)
        assert (came.words, came.result) == (list(ANSWER), "error")
        assert [note.result for note in upstream.notes] == ["error"]

    async def test_an_answer_that_cannot_be_written_is_given_all_the_same(
        self, acme: Tenant, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*arguments: object) -> None:
            raise OperationalError("gone")

        monkeypatch.setattr(store, "put", fail)
        came = await ask(acme, upstream)
        assert (came.words, came.result) == (list(ANSWER), "miss")

    async def test_the_store_has_so_long_and_no_longer(
        self, acme: Tenant, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(serving, "STORE_WITHIN_S", 0.0)
        came = await ask(acme, upstream)
        assert (came.words, came.result) == (list(ANSWER), "error")
