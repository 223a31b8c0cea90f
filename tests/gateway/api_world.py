"""A tenant's keys, and the model servers behind the API, for tests of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from apps.gateway.calling import catalogue
from apps.inference import registry
from apps.tenants import services
from tests.cast import Cast
from tests.contract.tei import TeiDouble
from tests.contract.tgi import TgiDouble

CHAT = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "Paris is the capital."


def make_key(cast: Cast, **changes: Any) -> str:
    """The text of a key that may use every model, unless `changes` say otherwise."""
    arguments = {"name": "Program", "expires_at": None, "may_use_models": True, **changes}
    _, raw = services.create_key(tenant=cast.acme, actor=cast.alice, **arguments)
    return raw


def chat(**changes: Any) -> dict[str, Any]:
    """The body of a request for a chat completion."""
    return {"model": "tgi", "messages": QUESTION, **changes}


@pytest.fixture
def key(cast: Cast) -> str:
    return make_key(cast)


@pytest.fixture
def tgi(settings: Settings) -> Iterator[TgiDouble]:
    """The only chat model; the settings name nothing else."""
    with TgiDouble() as double:
        settings.TGI_URL, settings.OPENAI_URL = double.url, ""
        settings.GENERATION_MAX_TOKENS, settings.GENERATION_CONTEXT_TOKENS = 64, 2048
        yield from _fresh(double)


@pytest.fixture
def tei(settings: Settings) -> Iterator[TeiDouble]:
    """The embedder, and a reranker beside it."""
    with TeiDouble() as double, TeiDouble(kind="reranker") as reranker:
        settings.EMBEDDER, settings.TEI_URL = "tei", double.url
        settings.RERANKER, settings.TEI_RERANK_URL = "tei", reranker.url
        yield from _fresh(double)


def _fresh(double: Any) -> Iterator[Any]:
    registry.forget()
    catalogue.forget()
    yield double
    registry.forget()
    catalogue.forget()
