"""The one way to a model: which models there are, and a call to one of them.

Limits, budgets, routing, caching and accounting join this path as steps of their own; callers
need not change for it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from django.conf import settings

from apps.gateway.errors import UnknownModel
from apps.gateway.types import Model, PromptStyle
from apps.inference.registry import make_openai, make_tgi
from apps.inference.types import GenerationEvent, GenerationRequest, Generator


def available_models() -> list[Model]:
    """The models people can pick, the default first; empty where no server is configured."""
    labels = {}
    if settings.TGI_URL:
        labels["tgi"] = "Text Generation Inference"
    if settings.OPENAI_URL:
        labels["openai"] = settings.OPENAI_MODEL or "OpenAI-compatible server"
    return [
        Model(
            alias=alias,
            label=label,
            context_tokens=settings.GENERATION_CONTEXT_TOKENS,
            max_tokens=settings.GENERATION_MAX_TOKENS,
            passages=settings.GENERATION_PASSAGES,
            prompt=cast(PromptStyle, settings.GENERATION_PROMPT),
        )
        for alias, label in labels.items()
    ]


def find_model(alias: str) -> Model:
    """The model called `alias`, or the default where it is empty; raises UnknownModel."""
    models = available_models()
    for model in models:
        if alias in ("", model.alias):
            return model
    offered = ", ".join(model.alias for model in models) or "none: set OPENAI_URL or TGI_URL"
    raise UnknownModel(f"There is no model called {alias[:60]!r}. Offered: {offered}.")


async def stream(alias: str, request: GenerationRequest) -> AsyncGenerator[GenerationEvent, None]:
    """Generate with the model called `alias`. Closing the iterator closes the connection."""
    async with aclosing(_generator(alias).stream(request)) as events:
        async for event in events:
            yield event


async def count_tokens(alias: str, text: str) -> int:
    """Tokens of `text` in the model's vocabulary, or an upper estimate."""
    return await _generator(alias).count_tokens(text)


def _generator(alias: str) -> Generator:
    if find_model(alias).alias == "tgi":
        return make_tgi(settings.TGI_URL, settings.TGI_API_KEY)
    return make_openai(settings.OPENAI_URL, settings.OPENAI_API_KEY, settings.OPENAI_MODEL)
