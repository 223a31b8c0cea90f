"""OpenAI's own client against the site: what it can do there, and which errors it raises."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pytest_django import Settings

from apps.gateway.admission.rules import limits_changed
from apps.gateway.models import LedgerEntry
from apps.inference import registry
from apps.tenants import services
from apps.tenants.models import ApiKey, Limit, Measure, Subject
from tests.cast import Cast
from tests.chat.library import PASSAGES, SUPPORTED, add_document
from tests.contract.site import Site, _quiet_doubles, site  # noqa: F401 - fixtures
from tests.contract.tgi import Behaviour
from tests.gateway.api_world import ANSWER, QUESTION, make_key
from tests.running_stack import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ASK: dict[str, Any] = {"model": "tgi", "messages": QUESTION}


@pytest.fixture
def running(site: Site) -> Site:  # noqa: F811
    return site


@pytest.fixture
def client(running: Site, cast: Cast) -> Iterator[OpenAI]:
    with OpenAI(base_url=running.url, api_key=make_key(cast), max_retries=0, timeout=20) as made:
        yield made


@pytest.fixture
async def asynchronous(client: OpenAI) -> AsyncIterator[AsyncOpenAI]:
    made = AsyncOpenAI(base_url=client.base_url, api_key=client.api_key, max_retries=0, timeout=20)
    async with made:
        yield made


def limit(cast: Cast, measure: Measure, amount: int) -> None:
    Limit.objects.create(
        tenant=cast.acme,
        subject=Subject.TENANT,
        measure=measure,
        amount=amount,
        given_by=Limit.GivenBy.OPS,
    )
    limits_changed(cast.acme.id)


# --- What works ---


def test_a_whole_answer(client: OpenAI) -> None:
    reply = client.chat.completions.create(**ASK)
    assert reply.choices[0].message.content == ANSWER
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 5
    assert reply.id.startswith("chatcmpl-")


def test_a_stream(client: OpenAI) -> None:
    chunks = list(client.chat.completions.create(**ASK, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == ANSWER
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_stream_with_usage(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True})
    )
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5


def test_the_clients_own_gathering_of_a_stream(client: OpenAI) -> None:
    with client.chat.completions.stream(**ASK) as stream:
        gathered = stream.get_final_completion()
    assert gathered.choices[0].message.content == ANSWER


async def test_the_asynchronous_client(asynchronous: AsyncOpenAI) -> None:
    reply = await asynchronous.chat.completions.create(**ASK)
    assert reply.choices[0].message.content == ANSWER
    stream = await asynchronous.chat.completions.create(**ASK, stream=True)
    texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(texts) == ANSWER


def test_headers_tell_limits_cost_and_cache(client: OpenAI, cast: Cast) -> None:
    limit(cast, Measure.REQUESTS_PER_MINUTE, 100)
    raw = client.chat.completions.with_raw_response.create(**ASK)
    assert raw.headers["x-ratelimit-limit-requests"] == "100"
    assert raw.headers["x-ratelimit-remaining-requests"] == "99"
    assert raw.headers["x-ragsite-cost-micros"] == "0"
    assert raw.headers["x-ragsite-cache"] == "miss"
    again = client.chat.completions.with_raw_response.create(**ASK)
    assert again.headers["x-ragsite-cache"] == "hit"
    assert again.parse().choices[0].message.content == ANSWER
    assert again.headers["x-request-id"] != raw.headers["x-request-id"]


def test_an_answer_given_before_can_be_declined(client: OpenAI) -> None:
    create = client.chat.completions.with_raw_response.create
    create(**ASK)
    raw = create(**ASK, extra_headers={"Cache-Control": "no-cache"})
    assert raw.headers["x-ragsite-cache"] == "bypassed"


def test_models(client: OpenAI) -> None:
    assert {model.id for model in client.models.list()} >= {"tgi", "embedding", "reranker"}
    assert client.models.retrieve("tgi").id == "tgi"


def test_tools_are_passed_on(client: OpenAI, running: Site) -> None:
    look = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    client.chat.completions.create(
        **ASK, tools=[{"type": "function", "function": look}], tool_choice="auto"
    )
    sent = json.loads(running.tgi.requests[-1].body)
    assert sent["tools"] == [{"type": "function", "function": look}]


def test_embeddings(client: OpenAI) -> None:
    # The client asks for base64 unless it is told otherwise.
    reply = client.embeddings.create(model="embedding", input=["one", "two"])
    plain = client.embeddings.create(model="embedding", input="one", encoding_format="float")
    assert [each.index for each in reply.data] == [0, 1]
    assert reply.usage.total_tokens > 0
    assert np.allclose(reply.data[0].embedding, plain.data[0].embedding)
    assert np.isclose(np.linalg.norm(reply.data[1].embedding), 1.0, atol=1e-3)


def test_reranking(client: OpenAI) -> None:
    documents = ["a canteen", "the capital of France is Paris", "leave"]
    reply: Any = client.post(
        "/rerank",
        cast_to=object,
        body={
            "model": "reranker",
            "query": "capital of France",
            "documents": documents,
            "top_n": 2,
            "return_documents": True,
        },
    )
    results = reply["results"]
    assert len(results) == 2
    assert results[0]["index"] == 1
    assert results[0]["document"]["text"] == documents[1]
    assert results[0]["relevance_score"] >= results[1]["relevance_score"]


def add_library(cast: Cast) -> str:
    """A collection with a document, indexed by the model that the site searches with."""
    collection, _ = add_document(cast.acme, PASSAGES)
    return f"rag/{collection.id}"


@pytest.fixture
def embedder(running: Site, settings: Settings) -> Iterator[None]:
    settings.EMBEDDER, settings.TEI_URL, settings.RERANKER = "tei", running.tei.url, "off"
    registry.forget()
    yield
    registry.forget()


@pytest.mark.usefixtures("embedder")
def test_citations_of_a_collection_are_read(client: OpenAI, cast: Cast, running: Site) -> None:
    running.tgi.default = Behaviour(tokens=(SUPPORTED, " [1]"))
    asked = {"role": "user", "content": "How many days of paid leave do employees receive?"}
    request: dict[str, Any] = {"model": add_library(cast), "messages": [asked]}
    reply: Any = client.chat.completions.create(**request)
    assert reply.model_extra["citations"][0]["document"] == "handbook.md"
    [annotation] = reply.choices[0].message.annotations
    assert annotation.url_citation.url == reply.model_extra["citations"][0]["url"]
    chunks: Any = list(client.chat.completions.create(**request, stream=True))
    assert chunks[-1].model_extra["citations"] == reply.model_extra["citations"]
    assert SUPPORTED in "".join(c.choices[0].delta.content or "" for c in chunks)


# --- Which errors it raises ---


def test_a_wrong_key(running: Site, client: OpenAI) -> None:
    other = client.with_options(api_key="rk_" + "a" * 43)
    with pytest.raises(openai.AuthenticationError) as caught:
        other.models.list()
    assert caught.value.code == "invalid_api_key"


def test_a_key_that_may_not(client: OpenAI, cast: Cast) -> None:
    other = client.with_options(api_key=make_key(cast, may_use_models=False))
    with pytest.raises(openai.PermissionDeniedError):
        other.models.list()


def test_a_revoked_key(client: OpenAI, cast: Cast) -> None:
    client.chat.completions.create(**ASK)
    services.revoke_key(key=ApiKey.objects.get(), actor=cast.alice)
    with pytest.raises(openai.AuthenticationError):
        client.chat.completions.create(**ASK)


def test_an_unknown_model(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(**{**ASK, "model": "gpt-4"})
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_a_wrong_value(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**ASK, n=2)
    assert caught.value.param == "n"


def test_a_prompt_that_is_too_long(client: OpenAI) -> None:
    long = [{"role": "user", "content": "word " * 20_000}]
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{**ASK, "messages": long})
    assert caught.value.code == "context_length_exceeded"


def test_a_rate_that_is_reached(client: OpenAI, cast: Cast) -> None:
    limit(cast, Measure.REQUESTS_PER_MINUTE, 1)
    client.chat.completions.create(**ASK)
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(**ASK)
    assert caught.value.code == "rate_limit_exceeded"
    assert "requests a minute" in caught.value.message
    assert int(caught.value.response.headers["retry-after"]) >= 1
    assert caught.value.response.headers["x-ratelimit-remaining-requests"] == "0"


@pytest.mark.parametrize("stream", [True, False])
def test_a_budget_that_is_used_up(client: OpenAI, cast: Cast, stream: bool) -> None:
    limit(cast, Measure.TOKENS_PER_DAY, 10)
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(**ASK, stream=stream)
    assert caught.value.code == "insufficient_quota"
    assert "tokens for today" in caught.value.message
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert not LedgerEntry.objects.exists()


def test_no_server_that_answers(client: OpenAI, running: Site) -> None:
    running.tgi.default = Behaviour(status=503)
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(**ASK)
    assert caught.value.status_code == 503
    assert int(caught.value.response.headers["retry-after"]) >= 1


def test_an_answer_that_breaks_off_raises_in_the_middle_of_a_stream(
    client: OpenAI, running: Site
) -> None:
    running.tgi.script(Behaviour(failure="reset", fail_after=2))
    texts = []

    def read() -> None:
        for chunk in client.chat.completions.create(**ASK, stream=True):
            texts.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIError) as caught:
        read()
    assert "".join(texts) == "Paris is"
    assert not isinstance(caught.value, openai.APIConnectionError)
    assert caught.value.message


# --- Leaving ---


async def test_a_client_that_closes_its_stream_ends_the_call(
    asynchronous: AsyncOpenAI, running: Site
) -> None:
    running.tgi.script(Behaviour(tokens=("a ",) * 2000, token_s=0.02))
    stream = await asynchronous.chat.completions.create(**ASK, stream=True)
    async for _ in stream:
        break
    await stream.close()
    # The upstream's connection first, then what was reserved: both within a second.
    eventually(lambda: running.tgi.disconnects == 1, within_s=1.0, what="the call to end")


def test_a_base64_vector_is_float32(client: OpenAI) -> None:
    raw = client.embeddings.with_raw_response.create(
        model="embedding", input="one", encoding_format="base64"
    )
    encoded = json.loads(raw.content)["data"][0]["embedding"]
    plain = client.embeddings.create(model="embedding", input="one", encoding_format="float")
    assert len(base64.b64decode(encoded)) == 4 * len(plain.data[0].embedding)
