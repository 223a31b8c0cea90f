"""Hugging Face's own client: reading the TGI double, which checks the double, and the site."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import (
    GenerationError,
    HfHubHTTPError,
    OverloadedError,
    TextGenerationError,
    ValidationError,
)

from tests.cast import Cast
from tests.contract.site import Site, _quiet_doubles, site  # noqa: F401 - fixtures
from tests.contract.tgi import Behaviour, TgiDouble
from tests.gateway.api_world import ANSWER, QUESTION, make_key


@pytest.fixture
def server() -> Iterator[TgiDouble]:
    with TgiDouble(api_key="k") as double:
        yield double


@pytest.fixture
def client(server: TgiDouble) -> Iterator[InferenceClient]:
    with InferenceClient(server.url, token="k", timeout=5) as client:
        yield client


def test_text_generation_is_read(client: InferenceClient) -> None:
    reply = client.text_generation("capital?", details=True, max_new_tokens=20)
    assert reply.generated_text == "Paris is the capital."
    assert reply.details is not None
    assert reply.details.generated_tokens == 5


@pytest.mark.parametrize("behaviour", [Behaviour(), Behaviour(space=False), Behaviour(cut_bytes=9)])
def test_a_generation_stream_is_read(
    server: TgiDouble, client: InferenceClient, behaviour: Behaviour
) -> None:
    server.script(behaviour)
    events = list(client.text_generation("capital?", details=True, stream=True, max_new_tokens=20))
    assert "".join(event.token.text for event in events) == "Paris is the capital."
    assert events[-1].details is not None
    assert events[-1].details.input_length == 2


def test_a_chat_stream_is_read(client: InferenceClient) -> None:
    messages = [{"role": "user", "content": "capital?"}]
    events = list(client.chat_completion(messages, stream=True, max_tokens=20))
    assert "".join(e.choices[0].delta.content or "" for e in events) == "Paris is the capital."


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (Behaviour(overloaded=True), OverloadedError),
        (Behaviour(failure="error", fail_after=1), GenerationError),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_its_errors_are_told_apart(
    server: TgiDouble,
    client: InferenceClient,
    behaviour: Behaviour,
    error: type[TextGenerationError],
    stream: bool,
) -> None:
    server.script(behaviour)
    with pytest.raises(error):
        list(client.text_generation("capital?", stream=stream, details=True, max_new_tokens=20))


def test_validation_is_told(client: InferenceClient) -> None:
    with pytest.raises(ValidationError, match="temperature"):
        client.text_generation("capital?", temperature=-1.0)


# --- The site ---

on_the_site = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
ASK: dict[str, Any] = {"messages": QUESTION, "model": "tgi", "max_tokens": 20}


def marked(function: Any) -> Any:
    """A test that needs the running site."""
    for mark in on_the_site:
        function = mark(function)
    return function


@pytest.fixture
def ours(site: Site, cast: Cast) -> Iterator[InferenceClient]:  # noqa: F811
    with InferenceClient(base_url=site.url, token=make_key(cast), timeout=20) as client:
        yield client


@marked
def test_the_site_answers_it(ours: InferenceClient) -> None:
    reply = ours.chat_completion(**ASK)
    assert reply.choices[0].message.content == ANSWER
    assert reply.usage.completion_tokens == 5


@marked
def test_the_site_streams_to_it(ours: InferenceClient) -> None:
    options = {"include_usage": True}
    events = list(ours.chat_completion(**ASK, stream=True, stream_options=options))
    assert "".join(e.choices[0].delta.content or "" for e in events if e.choices) == ANSWER
    assert events[-1].usage is not None
    assert events[-1].usage.completion_tokens == 5


@marked
async def test_the_site_answers_its_asynchronous_client(ours: InferenceClient, site: Site) -> None:  # noqa: F811
    async with AsyncInferenceClient(base_url=site.url, token=ours.token, timeout=20) as client:
        reply = await client.chat_completion(**ASK)
        assert reply.choices[0].message.content == ANSWER
        stream = await client.chat_completion(**ASK, stream=True)
        assert "".join([e.choices[0].delta.content or "" async for e in stream]) == ANSWER


@marked
def test_it_reads_the_sites_refusals(ours: InferenceClient) -> None:
    with pytest.raises(HfHubHTTPError) as caught:
        ours.chat_completion(**{**ASK, "model": "absent"})
    assert caught.value.response.status_code == 404


@marked
def test_it_raises_when_the_sites_stream_breaks_off(
    ours: InferenceClient,
    site: Site,  # noqa: F811
) -> None:
    site.tgi.script(Behaviour(failure="reset", fail_after=2))
    with pytest.raises(TextGenerationError):
        list(ours.chat_completion(**ASK, stream=True))
