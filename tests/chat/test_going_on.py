"""Going on from an answer that was stopped or broke off."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.chat.errors import NothingToContinue, UnknownAnswer
from apps.chat.models import Citation, MessageState
from apps.chat.pipeline.seam import Seam
from apps.chat.services import continue_answer
from apps.documents.models import Collection
from apps.gateway.calling import catalogue
from apps.gateway.models import Price
from apps.tenants.aio import in_scope, in_thread
from tests.cast import Cast
from tests.chat.asking import Given, access_of, asked, given, read
from tests.chat.library import SUPPORTED, Library, open_library
from tests.contract.tgi import Behaviour

WORDS = tuple(f"{word} " for word in SUPPORTED.split())
SKIPPED = ("cache", "rewrite", "embed", "search", "rerank")


@pytest.fixture
def library(cast: Cast, settings: Settings) -> Iterator[Library]:
    with open_library(cast.acme, settings) as opened:
        opened.tgi.default = Behaviour(tokens=WORDS, token_s=0.01)
        yield opened


async def broken_off(cast: Cast, library: Library, pieces: int = 4) -> Given:
    found = await asked(await access_of(cast.bob), library, stop_after=pieces)
    assert found.message.state == MessageState.STOPPED
    assert found.message.text == "".join(WORDS[:pieces])
    return found


async def gone_on(cast: Cast, library: Library, old: Given, *rest: str) -> Given:
    access = await access_of(cast.bob)
    library.tgi.script(Behaviour(tokens=rest or WORDS[4:]))
    return await given(
        access, await in_thread(continue_answer, access=access, answer_id=old.message.id)
    )


def last_turns(library: Library) -> list[dict[str, str]]:
    body = json.loads(library.tgi.requests[-1].body)
    turns: list[dict[str, str]] = body["messages"]
    return turns


@pytest.mark.django_db(transaction=True)
class TestGoingOn:
    async def test_the_text_goes_on_where_it_ended_and_is_cited_as_a_whole(
        self, cast: Cast, library: Library
    ) -> None:
        old = await broken_off(cast, library)
        new = await gone_on(cast, library, old)
        assert new.message.text.strip() == SUPPORTED
        assert new.message.state == MessageState.COMPLETE
        assert [each["supported"] for each in new.message.support] == [True]
        assert (new.message.continues, new.started.continues) == (old.message.id, old.message.id)
        assert new.message.in_reply_to == old.message.in_reply_to

    async def test_the_old_answer_stays_as_a_branch_and_the_new_one_is_shown(
        self, cast: Cast, library: Library
    ) -> None:
        old = await broken_off(cast, library)
        new = await gone_on(cast, library, old)
        access = await access_of(cast.bob)
        assert (await read(access, old.message.id)).text == old.message.text
        assert new.message.conversation.leaf_id == new.message.id

    async def test_the_model_is_given_the_beginning_as_its_own_open_turn(
        self, cast: Cast, library: Library
    ) -> None:
        old = await broken_off(cast, library)
        await gone_on(cast, library, old)
        *_, before, last = last_turns(library)
        assert (last["role"], last["content"]) == ("assistant", "Employees receive 25 days")
        assert "25 days of paid leave" in before["content"]

    async def test_what_was_not_done_again_is_recorded_as_skipped(
        self, cast: Cast, library: Library
    ) -> None:
        new = await gone_on(cast, library, await broken_off(cast, library))
        statuses = {hop.name: hop.status for hop in new.trace.hops}
        assert {name: statuses[name] for name in SKIPPED} == dict.fromkeys(SKIPPED, "skipped")
        assert statuses["generate"] == "ok"

    async def test_the_sources_are_those_of_before_by_the_same_numbers(
        self, cast: Cast, library: Library
    ) -> None:
        old = await broken_off(cast, library)
        new = await gone_on(cast, library, old)

        def places(message_id: uuid.UUID) -> list[tuple[int, int, int]]:
            found = Citation.objects.filter(message_id=message_id).order_by("marker")
            return list(found.values_list("marker", "char_start", "char_end"))

        access = await access_of(cast.bob)
        before = await in_scope(access.tenant.id, places, old.message.id)
        assert before == await in_scope(access.tenant.id, places, new.message.id)
        assert [each.text for each in new.outcome.passages] == [
            each.text for each in old.outcome.passages
        ]

    async def test_a_passage_that_is_closed_by_now_is_not_given_to_the_model(
        self, cast: Cast, library: Library
    ) -> None:
        old = await broken_off(cast, library)

        def close() -> None:
            Collection.objects.filter(id=library.collection.id).update(open_to_all=False)

        await in_scope(cast.acme.id, close)
        access, count = await access_of(cast.bob), len(library.tgi.requests)
        with pytest.raises(NothingToContinue):
            await in_thread(continue_answer, access=access, answer_id=old.message.id)
        assert len(library.tgi.requests) == count

    async def test_a_stop_before_the_first_new_word_keeps_the_beginning_and_its_citations(
        self, cast: Cast, library: Library
    ) -> None:
        old = await broken_off(cast, library, pieces=9)
        access = await access_of(cast.bob)
        started = await in_thread(continue_answer, access=access, answer_id=old.message.id)
        new = await given(access, started, stop_after=1)
        assert new.message.text == old.message.text
        assert new.outcome.cited == old.outcome.cited == (1,)

    async def test_a_model_that_is_away_leaves_what_there_was(
        self, cast: Cast, library: Library
    ) -> None:
        old = await broken_off(cast, library)
        access = await access_of(cast.bob)
        library.tgi.default = Behaviour(status=500)
        started = await in_thread(continue_answer, access=access, answer_id=old.message.id)
        new = await given(access, started)
        assert (new.message.text, new.message.state) == (old.message.text, "interrupted")
        assert [notice.code for notice in new.outcome.notices] == ["generator_down"]

    async def test_a_whole_answer_has_nothing_to_go_on_with(
        self, cast: Cast, library: Library
    ) -> None:
        access = await access_of(cast.bob)
        whole = await asked(access, library)
        with pytest.raises(NothingToContinue):
            await in_thread(continue_answer, access=access, answer_id=whole.message.id)

    async def test_somebody_elses_answer_is_unknown(self, cast: Cast, library: Library) -> None:
        old = await broken_off(cast, library)
        carl = await access_of(cast.carl)
        with pytest.raises(UnknownAnswer):
            await in_thread(continue_answer, access=carl, answer_id=old.message.id)

    async def test_what_was_spent_until_a_stop_and_after_is_told_apart(
        self, cast: Cast, library: Library
    ) -> None:
        await in_thread(_price)
        old = await broken_off(cast, library)
        new = await gone_on(cast, library, old)
        assert old.message.cost_micros
        assert new.message.cost_micros
        assert new.message.cost_micros != old.message.cost_micros


def _price() -> None:
    Price.objects.create(
        upstream="tgi",
        valid_from=timezone.now(),
        input_micros_per_mtok=1_000_000,
        output_micros_per_mtok=2_000_000,
    )
    catalogue.forget()


@pytest.mark.parametrize(
    ("beginning", "pieces", "whole"),
    [
        ("Leave is 25", (" days", " a", " year."), "Leave is 25 days a year."),
        ("Leave is 25 ", (" days", "."), "Leave is 25 days."),
        ("Leave is 25 ", ("days", "."), "Leave is 25 days."),
        # A word in two.
        ("Books are lent for fo", ("ur", " weeks."), "Books are lent for four weeks."),
        ("Books are lent for fo", ("four", " weeks."), "Books are lent for four weeks."),
        # The last words once more, in one piece or letter by letter.
        ("Leave is 25 days", ("25 days", " a year."), "Leave is 25 days a year."),
        ("Leave is 25 days", (" days", " a year."), "Leave is 25 days a year."),
        ("Leave is 25 days ", tuple("Leave is 25 days a year."), "Leave is 25 days a year."),
        ("It is. Leave is", ("It", " is.", " Leave", " is", " long."), "It is. Leave is long."),
        # What only begins like the last word is another.
        ("It is in the", (" theory", " of it."), "It is in the theory of it."),
        ("Leave a", (" day", "."), "Leave a day."),
        ("Take a", ("n", " apple."), "Take an apple."),
        # White space and marks of Markdown.
        ("One.\n\n", ("\n\n", "Two."), "One.\n\nTwo."),
        ("- One\n", ("- Two",), "- One\n- Two"),
        ("| a | b |\n", ("| c | d |",), "| a | b |\n| c | d |"),
        ("年假有", ("二十五", "天。"), "年假有二十五天。"),
        ("Done.", (), "Done."),
        # A server that sends the beginning first, and one that says what was said before.
        ("It is. So is", ("It is. So", " is it."), "It is. So is it."),
        ("It is so. But", (" it", " is", " so."), "It is so. But it is so."),
        ("", (" Leave",), " Leave"),
    ],
)
def test_nothing_is_doubled_or_glued_at_the_seam(
    beginning: str, pieces: tuple[str, ...], whole: str
) -> None:
    seam = Seam(beginning)
    text = beginning + "".join(seam.join(piece) for piece in pieces) + seam.rest()
    assert text == whole
