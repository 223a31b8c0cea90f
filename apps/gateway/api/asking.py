"""A chat request as the gateway carries it: what is asked, with what, and how large it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import orjson

from apps.gateway.api.errors import ApiError, context_exceeded, invalid
from apps.gateway.api.schemas import ChatRequest, Message, Part
from apps.gateway.types import Model
from apps.inference.generators.tokens import estimate_tokens, template_tokens
from apps.inference.types import ChatTurn, GenerationRequest

# Sent on as they are, where they are given.
_PASSED_ON = (
    *("top_p", "frequency_penalty", "presence_penalty", "logit_bias"),
    *("tools", "tool_choice", "parallel_tool_calls", "response_format"),
)
_IMAGE_TOKENS = 2048  # more than vision models make of one in one piece
# No usual text has more characters a token than this: beyond it a prompt is too long for certain.
# Between this and the estimate (an upper one) the upstream decides, for it can count.
_MOST_CHARS_PER_TOKEN = 16


def turns_of(messages: Sequence[Message]) -> tuple[ChatTurn, ...]:
    """The conversation. Raises ApiError for a message without content."""
    return tuple(_turn(message, place) for place, message in enumerate(messages))


def generation_request(asked: ChatRequest, model: Model) -> GenerationRequest:
    """The request to `model`. Raises ApiError for what cannot be done."""
    refuse_unsupported(asked)
    turns = turns_of(asked.messages)
    characters = sum(len(turn.content) for turn in turns)
    if characters > model.context_tokens * _MOST_CHARS_PER_TOKEN:
        raise context_exceeded(
            f"The messages have {characters:,} characters; prompt and answer together may have "
            f"{model.context_tokens:,} tokens."
        )
    return GenerationRequest(
        turns=turns,
        max_tokens=_max_tokens(asked, model),
        # Not given means greedy: the same question then has the same answer, which can be cached.
        temperature=asked.temperature or 0.0,
        stop=_stops(asked.stop),
        seed=asked.seed,
        options=_options(asked),
    )


def prompt_estimate(request: GenerationRequest) -> int:
    """An upper estimate of the prompt's tokens, with its tools and images."""
    written = sum(estimate_tokens(turn.content) for turn in request.turns)
    extra = sum(_extra_tokens(turn) for turn in request.turns)
    tools = request.options.get("tools"), request.options.get("response_format")
    schemas = sum(estimate_tokens(orjson.dumps(each).decode()) for each in tools if each)
    return template_tokens(request.turns) + written + extra + schemas


def _turn(message: Message, place: int) -> ChatTurn:
    param = f"messages[{place}].content"
    role: Literal["system", "user", "assistant", "tool"]
    # `developer` is OpenAI's later name of it, which other servers do not know.
    role = "system" if message.role == "developer" else message.role
    extra: dict[str, Any] = {
        name: value
        for name in ("name", "tool_calls", "tool_call_id")
        if (value := getattr(message, name)) is not None
    }
    if message.content is None and not message.tool_calls:
        raise invalid(f"{param}: every message has content, or calls to tools.", param=param)
    if not isinstance(message.content, list):
        return ChatTurn(role, message.content or "", extra)
    if any(part.type == "image_url" for part in message.content):
        extra["content"] = [_part(part, param) for part in message.content]
    return ChatTurn(role, "\n".join(part.text or "" for part in message.content), extra)


def _part(part: Part, param: str) -> dict[str, Any]:
    if (part.text if part.type == "text" else part.image_url) is None:
        raise invalid(f"{param}: a part of type {part.type} lacks its {part.type}.", param=param)
    return part.model_dump(exclude_none=True)


def refuse_unsupported(asked: ChatRequest) -> None:
    """Raise ApiError for a parameter that would silently have no effect."""
    if asked.n not in (None, 1):
        raise _unsupported("n", "One answer is given to a request: ask again for another.")
    if asked.logprobs:
        raise _unsupported("logprobs", "Log-probabilities are not passed on.")
    if asked.functions:
        raise _unsupported("functions", "Use `tools` instead of `functions`.")


def _unsupported(param: str, words: str) -> ApiError:
    return invalid(words, param=param, code="unsupported_parameter")


def _max_tokens(asked: ChatRequest, model: Model) -> int:
    """What was asked for, or the model's own maximum."""
    for name in ("max_completion_tokens", "max_tokens"):
        wanted: int | None = getattr(asked, name)
        if wanted is None:
            continue
        if wanted > model.max_tokens:
            words = f"{name} is {wanted}; {model.alias} writes {model.max_tokens} at most."
            raise invalid(words, param=name)
        return wanted
    return model.max_tokens


def _stops(stop: str | list[str] | None) -> tuple[str, ...]:
    listed = [stop] if isinstance(stop, str) else stop or []
    return tuple(each for each in listed if each)


def _options(asked: ChatRequest) -> dict[str, Any]:
    given = {name: getattr(asked, name) for name in _PASSED_ON}
    if given["top_p"] == 1:
        given["top_p"] = None  # changes nothing, and TGI rejects it
    return {name: value for name, value in given.items() if value is not None}


def _extra_tokens(turn: ChatTurn) -> int:
    parts = turn.extra.get("content") or []
    images: int = sum(part["type"] == "image_url" for part in parts)
    calls = turn.extra.get("tool_calls")
    called = estimate_tokens(orjson.dumps(calls).decode()) if calls else 0
    return images * _IMAGE_TOKENS + called
