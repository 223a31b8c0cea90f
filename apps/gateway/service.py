"""What the other rooms ask of the gateway. Calls go through `admission` and `metering`."""

from __future__ import annotations

from django.utils import timezone

from apps.gateway.admission import WorstCase
from apps.gateway.calling import catalogue
from apps.gateway.calling.catalogue import Catalogue
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


def worst_case(offer: Catalogue, model: Model, *calls: tuple[int, int]) -> WorstCase:
    """The most that calls to `model` may use, each with its tokens of prompt and of output."""
    now = timezone.now()
    return WorstCase(
        micros=sum(worst_micros(model, offer.prices, *tokens, now) for tokens in calls),
        tokens=sum(map(sum, calls)),
    )
