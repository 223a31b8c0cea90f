"""The TGI double read by Hugging Face's own client: a check of the double, not of ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import (
    GenerationError,
    OverloadedError,
    TextGenerationError,
    ValidationError,
)

from tests.contract.tgi import Behaviour, TgiDouble


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
