"""What is sent to `/v1/chat/completions`: OpenAI's fields, and what TGI makes of them.

Absent and null mean the same at OpenAI's, so null is never sent. A field that a server would
ignore although the answer hangs on it is refused by name: an answer that is not what was asked
for is worse than none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from apps.inference import errors
from apps.inference.types import ChatTurn, GenerationRequest

# The last turn is left open in the prompt, with no mark of its end and no beginning of another.
_GO_ON = {"continue_final_message": True, "add_generation_prompt": False}
GO_ON_WORDS = (
    "Your answer broke off. Go on exactly where it ended, in the middle of the sentence if need "
    "be. Do not repeat anything of it, and do not say that you go on."
)
# Set from the request's own fields, whatever the options say.
_OWN = {"messages", "model", "stream", "stream_options", "max_tokens", "temperature", "stop"}
# What TGI 3 takes besides; it ignores any other field without a word.
_TGI_TAKES = {
    "frequency_penalty",
    "presence_penalty",
    "top_p",
    "seed",
    "tools",
    "tool_prompt",
    "tool_choice",
    "response_format",
}
# No answer is another for these: marks of the caller's, or what TGI never does otherwise.
_TGI_NEEDS_NOT = {
    "max_completion_tokens",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
}


def chat_payload(request: GenerationRequest, *, model: str) -> dict[str, Any]:
    """The body for an OpenAI-compatible server; raises Rejected for what cannot be streamed."""
    options = _options(request)
    payload = {**options, **_own(request, model)}
    if "max_completion_tokens" in options:
        # Newer models of OpenAI's take this name alone.
        del payload["max_tokens"]
        payload["max_completion_tokens"] = request.max_tokens
    payload["messages"] = [_message(turn) for turn in request.turns]
    return payload


def tgi_payload(request: GenerationRequest) -> dict[str, Any]:
    """The body for TGI, which rejects some of what OpenAI allows; raises Rejected likewise.

    From TGI's router (lib.rs, validation.rs): `stop` is an array, `top_p` is below 1, a response
    format is a grammar, and a message has either content or calls.
    """
    # Any other model name is taken for a LoRA adapter's.
    payload = _own(request, "tgi")
    for name, value in _options(request).items():
        if name in _TGI_NEEDS_NOT or (name == "top_p" and value == 1):
            continue
        if name not in _TGI_TAKES:
            raise _unsupported(name)
        if name != "response_format":
            payload[name] = value
        elif (grammar := _grammar(value)) is not None:
            payload[name] = grammar
    payload["messages"] = [_tgi_message(turn) for turn in request.turns]
    if request.goes_on:
        payload |= _GO_ON  # what a version does not know it ignores
    return payload


def go_on_by(owners: Collection[str], payload: dict[str, Any]) -> None:
    """Have the server go on from the last turn, which is the assistant's and unfinished.

    llama.cpp does so by itself, vLLM and SGLang when they are told; `owners` are those of the
    server's models. A server that is none of these would take the turn for a whole answer: it is
    asked in words.
    """
    if "llamacpp" in owners:
        return
    if {"vllm", "sglang"} & set(owners):
        payload |= _GO_ON
    else:
        payload["messages"] = [*payload["messages"], {"role": "user", "content": GO_ON_WORDS}]


def _own(request: GenerationRequest, model: str) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if model:
        payload["model"] = model
    if request.stop:
        payload["stop"] = list(request.stop)
    if request.seed is not None:
        payload["seed"] = request.seed
    return payload


def _options(request: GenerationRequest) -> dict[str, Any]:
    """The options that say something."""
    options = {
        name: value
        for name, value in request.options.items()
        if value is not None and name not in _OWN and not _says_nothing(name, value)
    }
    for name in ("n", "best_of", "logprobs", "top_logprobs"):
        # One answer is streamed, and of its tokens the text.
        if name in options:
            raise _unsupported(name)
    return options


def _says_nothing(name: str, value: Any) -> bool:
    if name in ("n", "best_of"):
        return bool(value == 1)
    return name in ("logit_bias", "logprobs", "top_logprobs") and not value


def _message(turn: ChatTurn) -> dict[str, Any]:
    return {"role": turn.role, "content": turn.content, **turn.extra}


def _tgi_message(turn: ChatTurn) -> dict[str, Any]:
    message = _message(turn)
    if message.get("tool_calls") and not message.get("content"):
        del message["content"]  # else the calls are not read
    return message


def _grammar(value: Any) -> dict[str, Any] | None:
    """OpenAI's response format as TGI's grammar; None for plain text."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "json", "value": value.get("value") or {"type": "object"}}
    if kind == "json_schema" and isinstance(value.get("json_schema"), Mapping):
        return {"type": "json", "value": value["json_schema"].get("schema") or {"type": "object"}}
    if kind in ("json", "regex") and "value" in value:
        return dict(value)  # TGI's own
    raise _unsupported("response_format")


def _unsupported(name: str) -> errors.Rejected:
    error = errors.Rejected(
        f"The model server cannot do what `{name[:60]}` asks for. Leave it out of the request."
    )
    error.param = name
    return error
