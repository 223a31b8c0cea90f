"""Models named `rag/…`: answers from a collection, with their citations."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from apps.documents.models import Collection
from apps.gateway.calling import catalogue
from apps.gateway.models import LedgerEntry, Reservation
from apps.telemetry.models import Span
from apps.tenants.aio import in_thread
from apps.tenants.models import Measure
from apps.tenants.scope import tenant_scope
from tests.cast import Cast
from tests.chat.library import SUPPORTED, Library, open_library
from tests.contract.tgi import Behaviour
from tests.gateway.api_world import CHAT, make_key
from tests.gateway.asgi import ask, open_request
from tests.gateway.spending import limit

pytestmark = pytest.mark.django_db(transaction=True)
QUESTION = "How many days of paid leave do employees receive?"


@pytest.fixture
def library(cast: Cast, settings: Settings) -> Iterator[Library]:
    with open_library(cast.acme, settings) as opened:
        catalogue.forget()
        opened.tgi.default = Behaviour(tokens=tuple(f"{SUPPORTED} [1]".split(" ")))
        yield opened
    catalogue.forget()


def question(library: Library, text: str = QUESTION, **changes: Any) -> dict[str, Any]:
    model = f"rag/{library.collection.id}"
    return {"model": model, "messages": [{"role": "user", "content": text}], **changes}


async def test_an_answer_names_its_sources(key: str, library: Library) -> None:
    library.tgi.default = Behaviour(tokens=(SUPPORTED, " [1]"))
    answer = await ask("POST", CHAT, question(library), key=key)
    assert answer.status == 200, answer.body
    reply = answer.json
    text = reply["choices"][0]["message"]["content"]
    assert text.startswith(SUPPORTED)
    [citation] = reply["citations"]
    assert citation["marker"] == 1
    assert citation["document"] == "handbook.md"
    assert citation["document_id"] == str(library.document.id)
    assert citation["pages"] == [1, 1]
    assert "25 days" in citation["snippet"]
    assert citation["url"].startswith("http")
    assert str(library.document.id) in citation["url"]
    [annotation] = reply["choices"][0]["message"]["annotations"]
    place = annotation["url_citation"]
    assert text[place["start_index"] : place["end_index"]].startswith(SUPPORTED)
    assert place["url"] == citation["url"]
    assert reply["ragsite"]["kind"] == "generated"


async def test_a_stream_has_them_in_its_last_chunk(key: str, library: Library) -> None:
    library.tgi.default = Behaviour(tokens=(SUPPORTED, " [1]"))
    body = question(library, stream=True, stream_options={"include_usage": True})
    events = (await ask("POST", CHAT, body, key=key)).events
    *_, last, usage = events
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["citations"][0]["document"] == "handbook.md"
    assert last["choices"][0]["delta"]["annotations"]
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] > 0
    assert not [event for event in events[:-2] if "citations" in event]


async def test_the_same_question_is_answered_from_the_cache(key: str, library: Library) -> None:
    library.tgi.default = Behaviour(tokens=(SUPPORTED, " [1]"))
    first = await ask("POST", CHAT, question(library), key=key)
    again = await ask("POST", CHAT, question(library), key=key)
    assert first.headers["x-ragsite-cache"] == "miss"
    assert again.headers["x-ragsite-cache"] == "hit"
    assert again.json["choices"][0]["message"] == first.json["choices"][0]["message"]
    assert again.json["citations"] == first.json["citations"]
    anew = await ask(
        "POST", CHAT, question(library), key=key, headers={"cache-control": "no-cache"}
    )
    assert anew.headers["x-ragsite-cache"] == "bypassed"
    assert library.tgi.counts["requests"] == 2


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_broke_off_is_an_error(
    key: str, library: Library, stream: bool
) -> None:
    library.tgi.default = Behaviour(failure="reset", fail_after=2)
    answer = await ask("POST", CHAT, question(library, stream=stream), key=key)
    error = answer.events[-1]["error"] if stream else answer.error
    assert (answer.status, error["code"]) == (200 if stream else 502, "interrupted")


async def test_what_was_degraded_is_told(key: str, library: Library) -> None:
    library.tgi.default = Behaviour(status=503)
    reply = (await ask("POST", CHAT, question(library), key=key)).json
    assert reply["ragsite"]["kind"] == "quoted"
    assert "generator_down" in {each["code"] for each in reply["ragsite"]["notices"]}


async def test_hops_are_recorded_and_the_call_is_booked(key: str, library: Library) -> None:
    answer = await ask("POST", CHAT, question(library), key=key)
    request_id = uuid.UUID(answer.headers["x-request-id"])
    spans = await in_thread(lambda: set(Span.objects.values_list("hop", "trace_id")))
    assert ("search", request_id) in spans
    rows = await in_thread(lambda: list(LedgerEntry.objects.filter(hop="generate")))
    assert [(row.request_id, row.source) for row in rows] == [(request_id, "api")]
    assert rows[0].collection_ids == [library.collection.id]
    assert not await in_thread(Reservation.objects.exists)


async def test_earlier_turns_are_the_history(key: str, library: Library) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Who receives paid leave?"},
        {"role": "assistant", "content": "Employees receive paid leave."},
        {"role": "user", "content": "How many days of it do they receive?"},
    ]
    answer = await ask("POST", CHAT, question(library, messages=messages), key=key)
    assert answer.status == 200


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "x"}],
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
        [{"role": "user", "content": "  "}],
        [{"role": "user", "content": "x" * 20_000}],
    ],
)
async def test_without_a_question_there_is_no_answer(
    key: str, library: Library, messages: list[dict[str, str]]
) -> None:
    answer = await ask("POST", CHAT, question(library, messages=messages), key=key)
    assert (answer.status, answer.error["param"]) == (400, "messages")


async def test_collections_are_found_by_name_and_by_id(
    cast: Cast, key: str, library: Library
) -> None:
    await in_thread(_name, library.collection, "Staff Handbook 2026")
    listed = (await ask("GET", "/v1/models", key=key)).json["data"]
    assert "rag/staff-handbook-2026" in {each["id"] for each in listed}
    for name in ("rag/staff-handbook-2026", f"rag/{library.collection.id}"):
        assert (await ask("GET", f"/v1/models/{name}", key=key)).json["id"] == name
    body = question(library, model="rag/staff-handbook-2026")
    assert (await ask("POST", CHAT, body, key=key)).status == 200


async def test_of_two_of_the_same_name_each_has_its_id(
    cast: Cast, key: str, library: Library
) -> None:
    await in_thread(_name, library.collection, "Staff handbook")
    await in_thread(_add, cast, "Staff: Handbook!")
    listed = (await ask("GET", "/v1/models", key=key)).json["data"]
    rag = {each["id"] for each in listed if each["id"].startswith("rag/")}
    assert len(rag) == 2
    assert "rag/staff-handbook" not in rag
    assert (await ask("GET", "/v1/models/rag/staff-handbook", key=key)).status == 404


async def test_a_key_opens_only_its_collections(cast: Cast, library: Library) -> None:
    other = await in_thread(_add, cast, "Other")
    raw = await in_thread(lambda: make_key(cast, collection_ids=[other.id]))
    answer = await ask("POST", CHAT, question(library), key=raw)
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
    listed = (await ask("GET", "/v1/models", key=raw)).json["data"]
    assert [each["id"] for each in listed if each["id"].startswith("rag/")] == ["rag/other"]


@pytest.mark.parametrize("named", ["rag/other", "rag/{id}"])
async def test_a_key_limited_to_models_opens_those_by_either_name(
    cast: Cast, library: Library, named: str
) -> None:
    other = await in_thread(_add, cast, "Other")
    alias = named.format(id=other.id)
    raw = await in_thread(lambda: make_key(cast, model_aliases=[alias]))
    listed = (await ask("GET", "/v1/models", key=raw)).json["data"]
    assert [each["id"] for each in listed] == ["rag/other"]
    assert (await ask("GET", f"/v1/models/rag/{other.id}", key=raw)).status == 200
    assert (await ask("POST", CHAT, question(library), key=raw)).status == 404


async def test_another_tenants_collection_does_not_exist(cast: Cast, library: Library) -> None:
    def foreign() -> str:
        from apps.tenants import services

        _, raw = services.create_key(
            tenant=cast.rival,
            actor=cast.mallory,
            name="Theirs",
            expires_at=None,
            may_use_models=True,
            collection_ids=[library.collection.id],
        )
        return raw

    raw = await in_thread(foreign)
    assert (await ask("POST", CHAT, question(library), key=raw)).status == 404
    listed = (await ask("GET", "/v1/models", key=raw)).json["data"]
    assert not [each["id"] for each in listed if each["id"].startswith("rag/")]


@pytest.mark.parametrize("name", ["rag/", "rag/nothing", "rag/" + "0" * 36, "rag/../x", "rag/%"])
async def test_an_unknown_collection_is_not_found(key: str, library: Library, name: str) -> None:
    answer = await ask("POST", CHAT, question(library, model=name), key=key)
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")


async def test_a_budget_that_is_used_up_refuses_before_any_work(
    cast: Cast, key: str, library: Library
) -> None:
    await in_thread(limit, cast.acme, Measure.TOKENS_PER_DAY, 10)
    answer = await ask("POST", CHAT, question(library, stream=True), key=key)
    assert (answer.status, answer.error["code"]) == (429, "insufficient_quota")
    assert not await in_thread(LedgerEntry.objects.filter(source="api").exists)
    assert library.tgi.counts["requests"] == 0


async def test_leaving_ends_the_call(key: str, library: Library) -> None:
    library.tgi.default = Behaviour(tokens=("a ",) * 1000, token_s=0.02)
    connection = open_request("POST", CHAT, question(library, stream=True), key=key)
    await connection.until(lambda: connection.answer.pieces)
    connection.leave()
    await connection.done()
    [row] = await in_thread(lambda: list(LedgerEntry.objects.filter(hop="generate")))
    assert row.outcome == "disconnected"


def _name(collection: Collection, name: str) -> None:
    with tenant_scope(collection.tenant_id):
        Collection.objects.filter(id=collection.id).update(name=name)


def _add(cast: Cast, name: str) -> Collection:
    with tenant_scope(cast.acme.id):
        return Collection.objects.create(tenant=cast.acme, name=name)
