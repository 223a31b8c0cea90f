"""What the other rooms ask of the gateway. Calls go through `admission` and `metering`."""

from __future__ import annotations

from django.utils import timezone

from apps.gateway.admission import WorstCase
from apps.gateway.calling import catalogue
from apps.gateway.calling.upstreams import generator_of
from apps.gateway.ledger.prices import worst_micros
from apps.gateway.types import Model
from apps.inference.errors import InferenceError
from apps.inference.generators.tokens import estimate_tokens


def available_models() -> list[Model]:
    """The models people can pick, the default first; empty where no server is configured."""
    return [model for model in catalogue.current().models if model.kind == "chat"]


def find_model(alias: str) -> Model:
    """The model called `alias`, or the default where it is empty; raises UnknownModel."""
    return catalogue.current().find(alias)


async def count_tokens(model: Model, text: str) -> int:
    """Tokens of `text` in the model's vocabulary, or an upper estimate where no server tells."""
    for route in model.routes:
        try:
            return await generator_of(route).count_tokens(text)
        except InferenceError:
            continue
    return estimate_tokens(text)


async def worst_case(
    model: Model, *, prompt_tokens: int, output_tokens: int, beside: tuple[int, int] = (0, 0)
) -> WorstCase:
    """The most that a call may use, with another one of the same model `beside` it (tokens of
    prompt and output)."""
    prices, now = (await catalogue.load()).prices, timezone.now()
    micros = worst_micros(model, prices, prompt_tokens, output_tokens, now)
    micros += worst_micros(model, prices, *beside, now)
    return WorstCase(micros=micros, tokens=prompt_tokens + output_tokens + sum(beside))
