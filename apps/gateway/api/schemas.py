"""What is sent to the API. Types are strict, as OpenAI's are; unknown fields are left aside.

The API's description (`openapi.py`) is made from these models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from apps.gateway.api.errors import ApiError, invalid

MESSAGES_MAX = 2048
BATCH_MAX = 256  # texts of one embedding or reranking request
TOOLS_MAX = 128
_NAME_MAX = 200


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain the character NUL")
    return text


Text = Annotated[str, AfterValidator(_storable)]
Name = Annotated[Text, Field(min_length=1, max_length=_NAME_MAX)]
JsonObject = dict[str, Any]


class Sent(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, frozen=True)


class ImageUrl(Sent):
    url: Text
    detail: Literal["auto", "low", "high"] | None = None


class Part(Sent):
    """A part of a message: text, or an image for models that see."""

    type: Literal["text", "image_url"]
    text: Text | None = None
    image_url: ImageUrl | None = None


class Message(Sent):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Text | Annotated[list[Part], Field(max_length=MESSAGES_MAX)] | None = None
    name: Name | None = None
    tool_calls: Annotated[list[JsonObject], Field(max_length=TOOLS_MAX)] | None = None
    tool_call_id: Name | None = None


class StreamOptions(Sent):
    include_usage: bool | None = None


class ChatRequest(Sent):
    """`POST /v1/chat/completions`."""

    model: Name
    messages: Annotated[list[Message], Field(min_length=1, max_length=MESSAGES_MAX)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=1024)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Text | Annotated[list[Text], Field(max_length=16)] | None = None
    tools: Annotated[list[JsonObject], Field(max_length=TOOLS_MAX)] | None = None
    tool_choice: Name | JsonObject | None = None
    parallel_tool_calls: bool | None = None
    response_format: JsonObject | None = None
    n: int | None = None
    logprobs: bool | None = None
    functions: list[JsonObject] | None = None


class EmbeddingRequest(Sent):
    """`POST /v1/embeddings`."""

    model: Name
    # Tokens in place of text are read so that they can be refused in words.
    input: Text | Annotated[list[Text | int | list[int]], Field(max_length=BATCH_MAX)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None


class RerankDocument(Sent):
    text: Text


class RerankRequest(Sent):
    """`POST /v1/rerank`, as Cohere and Jina have it."""

    model: Name
    query: Annotated[Text, Field(min_length=1)]
    documents: Annotated[list[Text | RerankDocument], Field(min_length=1, max_length=BATCH_MAX)]
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool | None = None


S = TypeVar("S", bound=Sent)


def parse(kind: type[S], body: bytes) -> S:
    """The request that `body` holds; raises ApiError with the field at fault."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as exc:
        raise _refusal(exc) from None


def _refusal(exc: ValidationError) -> ApiError:
    """The fault deepest inside; never what was sent.

    Of alternatives (text, or a list of parts) the one that was meant got furthest.
    """
    faults = exc.errors(include_url=False, include_context=False, include_input=False)
    fault = max(faults, key=lambda each: len(each["loc"]))
    if fault["type"] == "json_invalid":
        return invalid("The body is not JSON: " + fault["msg"].partition(": ")[2], code="bad_json")
    param = _spoken(fault["loc"])
    words = fault["msg"].removeprefix("Value error, ")
    if not param:
        return invalid(f"The body is not what is expected here: {words}", code="bad_json")
    return invalid(f"{param}: {words}", param=param)


def _spoken(place: tuple[int | str, ...]) -> str:
    """`messages[0].content`, without what pydantic says of the alternatives it tried."""
    path = ""
    for step in place:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step.isidentifier() and step.islower() and step not in ("str", "int", "dict"):
            path += f".{step}" if path else step
    return path
