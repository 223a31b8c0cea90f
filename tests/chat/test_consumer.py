"""The websocket, end to end in one process: all of it real but for TEI and TGI."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from django.test import Client
from pytest_django import Settings

from apps.chat.models import Citation, Conversation, Message, MessageRole, MessageState
from apps.retrieval.models import SearchProfile
from apps.telemetry.models import Span
from apps.tenants.aio import in_scope, in_thread
from apps.tenants.models import Membership, User
from ragsite.asgi import application
from tests.cast import Cast, signed_in
from tests.chat.library import SUPPORTED, Library, add_document, open_library
from tests.contract.tgi import Behaviour
from tests.world import furnish

pytestmark = pytest.mark.django_db(transaction=True)

DOWN, BROKE_OFF = "generator_down", "generator_broke_off"
ORIGIN = "http://127.0.0.1:8000"
QUESTION = "How many days of paid leave do employees receive?"


@pytest.fixture
def library(cast: Cast, settings: Settings) -> Iterator[Library]:
    settings.TITLES = "rule"  # a model's title is one more call
    with open_library(cast.acme, settings) as opened:
        opened.tgi.default = Behaviour(tokens=tuple(f"{word} " for word in SUPPORTED.split()))
        yield opened


def socket_of(
    user: User | None, *, slug: str = "acme", origin: str = ORIGIN, client: Client | None = None
) -> WebsocketCommunicator:
    browser = client or signed_in(user)
    cookie = browser.cookies.get("sessionid")
    headers = [(b"origin", origin.encode())]
    if cookie is not None:
        headers.append((b"cookie", f"sessionid={cookie.value}".encode()))
    return WebsocketCommunicator(application, f"/ws/t/{slug}/chat/", headers)


async def connected(user: User, **options: Any) -> WebsocketCommunicator:
    socket = await in_thread(socket_of, user, **options)
    accepted, _ = await socket.connect()
    assert accepted
    assert (await frame_of(socket))["type"] == "hello"
    return socket


async def frame_of(socket: WebsocketCommunicator, timeout_s: float = 5) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(await socket.receive_from(timeout=timeout_s))
    assert frame["v"] == 2
    return frame


def ask(library: Library, **changes: Any) -> str:
    return json.dumps(
        {
            "v": 2,
            "type": "ask",
            "id": uuid.uuid4().hex,
            "conversation": None,
            "collections": [str(library.collection.id)],
            "after": None,
            "models": ["tgi"],
            "question": QUESTION,
            **changes,
        }
    )


async def until(socket: WebsocketCommunicator, kind: str) -> list[dict[str, Any]]:
    """The frames up to and including the first of type `kind`."""
    frames = []
    while not frames or frames[-1]["type"] != kind:
        frames.append(await frame_of(socket))
    return frames


async def answered(socket: WebsocketCommunicator, message: str) -> list[dict[str, Any]]:
    await socket.send_to(text_data=message)
    return await until(socket, "answer.finished")


async def stored(library: Library, answer_id: str) -> Message:
    def read() -> Message:
        return Message.objects.get(id=answer_id)

    return await in_scope(library.document.tenant_id, read)


async def test_an_answer_streams_with_its_sources_and_ends_cited(
    cast: Cast, library: Library
) -> None:
    socket = await connected(cast.alice)
    frames = await answered(socket, ask(library))
    kinds = [frame["type"] for frame in frames]
    assert kinds[0] == "answer.started"
    assert kinds.index("answer.sources") < kinds.index("answer.tokens")
    assert [frame["seq"] for frame in frames] == list(range(len(frames)))
    text = "".join(frame["text"] for frame in frames if frame["type"] == "answer.tokens")
    assert text.strip() == SUPPORTED
    end = frames[-1]
    assert (end["state"], end["kind"], end["error"]) == ("complete", "generated", None)
    assert 'class="cite"' in end["html"]
    assert {hop["hop"] for hop in end["hops"]} >= {
        *("cache", "rewrite", "embed", "search", "rerank", "assemble", "generate", "stream")
    }
    await socket.disconnect()


async def test_the_answer_its_citations_and_its_spans_are_stored(
    cast: Cast, library: Library
) -> None:
    socket = await connected(cast.bob)
    frames = await answered(socket, ask(library))
    answer = await stored(library, frames[-1]["answer"])
    assert answer.state == MessageState.COMPLETE
    assert answer.text.strip() == SUPPORTED

    def read() -> tuple[list[Citation], int]:
        spans = Span.objects.filter(tenant_id=cast.acme.id, trace_id=answer.id)
        return list(Citation.objects.filter(message=answer, cited=True)), spans.count()

    cited, spans = await in_scope(cast.acme.id, read)
    assert [citation.document_id for citation in cited] == [library.document.id]
    assert spans == 8
    await socket.disconnect()


async def test_a_follow_up_is_searched_as_the_model_rewrote_it_and_asked_as_it_was(
    cast: Cast, library: Library
) -> None:
    searched = "How many days of paid leave do employees receive in January?"
    socket = await connected(cast.bob)
    first = await answered(socket, ask(library))
    assert "answer.rewritten" not in [frame["type"] for frame in first]
    library.tgi.script(Behaviour(tokens=tuple(f"{word} " for word in searched.split())))
    place = {"conversation": first[0]["conversation"], "after": first[-1]["answer"]}
    frames = await answered(socket, ask(library, question="and in January?", **place))
    (rewritten,) = [frame for frame in frames if frame["type"] == "answer.rewritten"]
    assert rewritten["searched_as"] == searched
    assert frames[-1]["kind"] == "generated"
    prompt = json.loads(library.tgi.requests[-1].body)["messages"]
    assert prompt[-1]["content"].endswith("Question: and in January?")
    assert QUESTION in [turn["content"] for turn in prompt]
    question = await stored(library, frames[0]["question"])
    assert (question.text, question.searched_as) == ("and in January?", searched)

    def read() -> dict[str, Any]:
        span = Span.objects.get(trace_id=frames[-1]["answer"], hop="rewrite")
        return dict(span.attributes)

    span = await in_scope(cast.acme.id, read)
    assert (span["how"], span["changed"], span["message"]) == ("model", True, str(question.id))
    await socket.disconnect()


async def test_by_rule_a_follow_up_of_a_quoted_answer_is_searched_with_its_question(
    cast: Cast, library: Library, settings: Settings
) -> None:
    settings.REWRITE = "rule"
    library.tgi.default = Behaviour(status=502)
    socket = await connected(cast.bob)
    first = await answered(socket, ask(library))
    assert first[-1]["kind"] == "quoted"
    place = {"conversation": first[0]["conversation"], "after": first[-1]["answer"]}
    again = ask(library, question="why?", **place)
    frames = await answered(socket, again)
    assert (await stored(library, frames[0]["question"])).searched_as == f"{QUESTION} why?"
    # Once more, now that it is not rewritten: what was stored goes with it.
    settings.REWRITE = "off"
    message = {"v": 2, "type": "regenerate", "id": "q2", "answer": frames[0]["answer"]}
    frames = await answered(socket, json.dumps(message))
    assert (await stored(library, frames[0]["question"])).searched_as == ""
    await socket.disconnect()


async def test_the_tenants_own_limit_decides_what_is_not_found(
    cast: Cast, library: Library
) -> None:
    def set_limit() -> None:
        SearchProfile.objects.create(
            tenant=cast.acme,
            origin=SearchProfile.Origin.MANUAL,
            active=True,
            ef_search=100,
            leg_candidates=100,
            rerank_candidates=20,
            m=16,
            ef_construction=64,
            not_found_below=1.0,
        )

    await in_scope(cast.acme.id, set_limit)
    socket = await connected(cast.bob)
    assert (await answered(socket, ask(library)))[-1]["kind"] == "not_found"
    await socket.disconnect()


async def test_figures_are_for_those_who_may_see_them(cast: Cast, library: Library) -> None:
    socket = await connected(cast.bob)
    end = (await answered(socket, ask(library)))[-1]
    assert end["hops"] is None
    assert end["tokens"] is None
    await socket.disconnect()


async def test_stop_keeps_what_was_written_and_frees_the_engine_within_a_second(
    cast: Cast, library: Library
) -> None:
    library.tgi.default = Behaviour(tokens=tuple(["word "] * 500), token_s=0.02)
    socket = await connected(cast.bob)
    await socket.send_to(text_data=ask(library))
    answer_id = (await until(socket, "answer.tokens"))[-1]["answer"]
    await socket.send_to(text_data=json.dumps({"v": 2, "type": "stop", "answer": answer_id}))
    asked = time.monotonic()
    end = (await until(socket, "answer.finished"))[-1]
    await engine_is_free(library)
    assert time.monotonic() - asked < 1
    assert end["state"] == "stopped"
    answer = await stored(library, answer_id)
    assert answer.state == MessageState.STOPPED
    assert answer.text.startswith("word")
    # Counted here: the server says nothing to a client that has gone.
    assert answer.tokens_estimated
    assert answer.completion_tokens == len(answer.text.split())
    await socket.disconnect()


async def test_an_answer_goes_on_to_its_end_when_nobody_watches(
    cast: Cast, library: Library
) -> None:
    library.tgi.default = Behaviour(tokens=tuple(["word "] * 40), token_s=0.02)
    socket = await connected(cast.bob)
    await socket.send_to(text_data=ask(library))
    answer_id = (await until(socket, "answer.tokens"))[-1]["answer"]
    await socket.disconnect()
    while (await stored(library, answer_id)).state == MessageState.STREAMING:  # noqa: ASYNC110 - a row, not an event
        await asyncio.sleep(0.05)
    answer = await stored(library, answer_id)
    assert (answer.state, answer.text) == (MessageState.COMPLETE, "word " * 40)
    assert library.tgi.disconnects == 0


async def engine_is_free(library: Library) -> None:
    while library.tgi.open_generations:  # noqa: ASYNC110 - a double's counter, not an event
        await asyncio.sleep(0.01)
    assert library.tgi.disconnects == 1


async def test_another_persons_answer_can_not_be_stopped(cast: Cast, library: Library) -> None:
    library.tgi.default = Behaviour(tokens=tuple(["word "] * 40), token_s=0.02)
    socket, other = await connected(cast.bob), await connected(cast.carl)
    await socket.send_to(text_data=ask(library))
    answer_id = (await until(socket, "answer.tokens"))[-1]["answer"]
    await other.send_to(text_data=json.dumps({"v": 2, "type": "stop", "answer": answer_id}))
    assert (await until(socket, "answer.finished"))[-1]["state"] == "complete"
    await socket.disconnect()
    await other.disconnect()


async def test_a_question_of_the_same_conversation_waits_its_turn(
    cast: Cast, library: Library
) -> None:
    library.tgi.default = Behaviour(tokens=tuple(["word "] * 40), token_s=0.02)
    socket = await connected(cast.bob)
    await socket.send_to(text_data=ask(library))
    conversation = (await until(socket, "answer.started"))[-1]["conversation"]
    await socket.send_to(text_data=ask(library, conversation=conversation, id="q2"))
    refusal = (await until(socket, "error"))[-1]
    assert (refusal["code"], refusal["id"]) == ("busy", "q2")
    await until(socket, "answer.finished")
    await socket.disconnect()


@pytest.mark.parametrize(
    ("behaviour", "state", "kind", "notice"),
    [
        (Behaviour(overloaded=True), "complete", "quoted", DOWN),
        (Behaviour(failure="error", fail_after=0), "complete", "quoted", DOWN),
        (Behaviour(status=502), "complete", "quoted", DOWN),
        (
            Behaviour(failure="error", fail_after=3),
            "interrupted",
            "generated",
            "generator_broke_off",
        ),
        (
            Behaviour(failure="reset", fail_after=3),
            "interrupted",
            "generated",
            "generator_broke_off",
        ),
        (
            Behaviour(failure="close", fail_after=3),
            "interrupted",
            "generated",
            "generator_broke_off",
        ),
    ],
    ids=["overloaded", "error", "502", "error later", "reset later", "close later"],
)
async def test_a_failing_engine_degrades_the_answer_and_the_reader_is_told(
    cast: Cast, library: Library, behaviour: Behaviour, state: str, kind: str, notice: str
) -> None:
    library.tgi.default = behaviour
    socket = await connected(cast.bob)
    frames = await answered(socket, ask(library))
    assert (frames[-1]["state"], frames[-1]["kind"]) == (state, kind)
    assert notice in [frame["code"] for frame in frames if frame["type"] == "answer.notice"]
    assert frames[-1]["cited"] == ([1, 2, 3] if kind == "quoted" else frames[-1]["cited"])
    await socket.disconnect()


async def test_without_an_embedder_the_answer_comes_from_words_and_says_so(
    cast: Cast, library: Library, settings: Settings
) -> None:
    settings.TEI_URL = "http://127.0.0.1:1"
    from apps.inference import registry

    registry.forget()
    socket = await connected(cast.bob)
    frames = await answered(socket, ask(library))
    assert "embedder_down" in [f["code"] for f in frames if f["type"] == "answer.notice"]
    assert frames[-1]["cited"]
    await socket.disconnect()


async def test_without_a_reranker_the_answer_says_so(
    cast: Cast, library: Library, settings: Settings
) -> None:
    settings.RERANKER, settings.TEI_RERANK_URL = "tei", "http://127.0.0.1:1"
    from apps.inference import registry

    registry.forget()
    socket = await connected(cast.bob)
    frames = await answered(socket, ask(library))
    assert "reranker_down" in [f["code"] for f in frames if f["type"] == "answer.notice"]
    assert frames[-1]["kind"] == "generated"
    await socket.disconnect()


async def test_a_question_about_something_else_is_not_generated(
    cast: Cast, library: Library
) -> None:
    socket = await connected(cast.bob)
    end = (await answered(socket, ask(library, question="Zebra xylophone quasar?")))[-1]
    assert end["kind"] == "not_found"
    assert library.tgi.counts["requests"] == 0
    await socket.disconnect()


async def test_an_answer_can_be_asked_for_again(cast: Cast, library: Library) -> None:
    socket = await connected(cast.bob)
    first = (await answered(socket, ask(library)))[-1]
    again = {"v": 2, "type": "regenerate", "id": "q2", "answer": first["answer"], "model": "tgi"}
    second = (await answered(socket, json.dumps(again)))[-1]
    assert second["answer"] != first["answer"]
    assert second["state"] == "complete"
    await socket.disconnect()


async def test_earlier_exchanges_are_part_of_the_prompt(cast: Cast, library: Library) -> None:
    socket = await connected(cast.bob)
    frames = await answered(socket, ask(library))
    conversation = frames[0]["conversation"]
    after = frames[-1]["answer"]
    frames = await answered(socket, ask(library, conversation=conversation, after=after, id="q2"))

    def count() -> tuple[int, int]:
        messages = Message.objects.filter(conversation_id=conversation)
        return messages.filter(role=MessageRole.ANSWER).count(), Conversation.objects.count()

    assert await in_scope(cast.acme.id, count) == (2, 1)
    await socket.disconnect()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"question": " \n\0"}, "question_empty"),
        ({"question": "x" * 4001}, "question_too_long"),
        ({"conversation": str(uuid.uuid4())}, "unknown_conversation"),
        ({"models": ["gpt-99"]}, "unknown_model"),
        ({"collections": []}, "no_collection"),
        ({"collections": [str(uuid.uuid4())]}, "unknown_collection"),
        ({"collections": "all"}, "frame_malformed"),
        ({"v": 9}, "frame_malformed"),
        ({"type": "drop table"}, "frame_malformed"),
    ],
)
async def test_a_bad_request_is_refused_in_words_and_the_socket_lives_on(
    cast: Cast, library: Library, changes: dict[str, Any], code: str
) -> None:
    socket = await connected(cast.bob)
    await socket.send_to(text_data=ask(library, **{"id": "q1", **changes}))
    refusal = await frame_of(socket)
    assert (refusal["type"], refusal["code"], refusal["id"]) == ("error", code, "q1")
    assert (await answered(socket, ask(library)))[-1]["state"] == "complete"
    await socket.disconnect()


async def test_binary_and_oversized_frames_are_refused(cast: Cast, library: Library) -> None:
    socket = await connected(cast.bob)
    await socket.send_to(bytes_data=b"\x00\xff")
    assert (await frame_of(socket))["code"] == "frame_malformed"
    await socket.send_to(text_data="x" * 70_000)
    assert (await frame_of(socket))["code"] == "frame_too_large"
    assert (await socket.receive_output())["code"] == 1009


async def test_another_tenants_collection_and_conversation_are_unknown(
    cast: Cast, library: Library
) -> None:
    theirs, _ = await in_thread(add_document, cast.rival, ("Secret of the rival.",))
    socket = await connected(cast.bob)
    await socket.send_to(text_data=ask(library, collections=[str(theirs.id)]))
    assert (await frame_of(socket))["code"] == "unknown_collection"
    await socket.disconnect()


async def test_a_collection_that_is_not_open_to_a_member_is_unknown_to_them(
    cast: Cast, library: Library
) -> None:
    def close() -> None:
        library.collection.open_to_all = False
        library.collection.save(update_fields=["open_to_all"])

    await in_scope(cast.acme.id, close)
    socket = await connected(cast.bob)
    await socket.send_to(text_data=ask(library))
    assert (await frame_of(socket))["code"] == "unknown_collection"
    await socket.disconnect()


@pytest.mark.parametrize(
    ("who", "code", "close"),
    [(None, "signed_out", 4401), ("mallory", "not_a_member", 4403), ("olga", "not_a_member", 4403)],
)
async def test_strangers_are_told_why_and_closed(
    cast: Cast, who: str | None, code: str, close: int
) -> None:
    socket = await in_thread(socket_of, getattr(cast, who) if who else None)
    await socket.connect()
    assert (await frame_of(socket))["code"] == code
    assert (await socket.receive_output())["code"] == close


async def test_another_origin_does_not_get_in(cast: Cast) -> None:
    socket = await in_thread(socket_of, cast.bob, origin="http://evil.example")
    accepted, _ = await socket.connect()
    assert not accepted


async def test_a_membership_taken_away_ends_the_socket_at_the_next_message(
    cast: Cast, library: Library
) -> None:
    socket = await connected(cast.bob)
    await in_thread(Membership.objects.filter(user=cast.bob).delete)
    await socket.send_to(text_data=ask(library))
    assert (await frame_of(socket))["code"] == "not_a_member"
    assert (await socket.receive_output())["code"] == 4403


async def test_signing_out_elsewhere_ends_the_socket_at_the_next_message(
    cast: Cast, library: Library
) -> None:
    browser = await in_thread(signed_in, cast.bob)
    socket = await connected(cast.bob, client=browser)
    await in_thread(browser.logout)
    await socket.send_to(text_data=ask(library))
    assert (await frame_of(socket))["code"] == "signed_out"
    assert (await socket.receive_output())["code"] == 4401


@pytest.mark.parametrize("owner", ["colleague", "another tenant"])
async def test_ids_of_somebody_elses_chat_are_unknown_in_every_message(
    cast: Cast, library: Library, owner: str
) -> None:
    """Guessed ids: a colleague's of the same tenant, and those of another tenant."""
    colleague = owner == "colleague"
    tenant = cast.acme if colleague else cast.rival
    people = (
        {"manager": cast.alice, "member": cast.carl}
        if colleague
        else {
            "manager": cast.mallory,
            "member": cast.mallory,
        }
    )
    theirs = await in_thread(furnish, tenant, **people)
    answer, conversation = str(theirs["answer_id"]), str(theirs["conversation_id"])
    socket = await connected(cast.bob)
    tries = [
        (ask(library, id="q1", conversation=conversation), "unknown_conversation"),
        (
            json.dumps({"v": 2, "type": "regenerate", "id": "q1", "answer": answer, "model": ""}),
            "unknown_answer",
        ),
    ]
    if not colleague:
        chosen = [str(theirs["collection_id"])]
        tries.append((ask(library, id="q1", collections=chosen), "unknown_collection"))
    for message, code in tries:
        await socket.send_to(text_data=message)
        refusal = await frame_of(socket)
        assert (refusal["code"], refusal["id"]) == (code, "q1")
    # Stopping what is not one's own says nothing, not even that it is there.
    await socket.send_to(text_data=json.dumps({"v": 2, "type": "stop", "answer": answer}))
    await socket.send_to(text_data=json.dumps({"v": 2, "type": "ping"}))
    assert (await frame_of(socket))["type"] == "pong"
    await socket.disconnect()
