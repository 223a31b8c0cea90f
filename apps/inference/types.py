"""The protocols behind which every model server stands, and what passes through them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns text into unit vectors. Synchronous: called from workers and from pipeline threads."""

    @property
    def model_id(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """Longer texts are cut by the model."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Shape (dimensions,), unit length. Ahead of any documents being embedded."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), unit length."""
        ...


@dataclass(frozen=True)
class WeightedWord:
    """A word of the question, `question[start:end]`, and how much matching it says (its idf)."""

    start: int
    end: int
    weight: float


class Reranker(Protocol):
    """Scores passages against a question. Synchronous."""

    name: str  # "late-interaction", "cross-encoder" or "tei"

    def score(
        self, question: str, passages: Sequence[str], words: Sequence[WeightedWord] = ()
    ) -> list[float]:
        """One score a passage, in the order given; higher is better; scale is the reranker's own.

        `words` weigh the question's tokens where the reranker can use that (late interaction);
        without them every token that is not special counts alike.
        """
        ...


@dataclass(frozen=True)
class ChatTurn:
    """One message of the prompt."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    # Other fields of the message, sent as they are: tool_calls, tool_call_id, name, or `content`
    # in parts, which then stands in place of the text.
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GenerationRequest:
    """What the model is asked."""

    turns: tuple[ChatTurn, ...]
    max_tokens: int
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    # Other parameters, sent as they are where the server takes them: tools, top_p and the like.
    options: Mapping[str, Any] = field(default_factory=dict)
    traceparent: str = ""  # W3C trace context, sent as a header
    # The last turn is the assistant's and unfinished: what is written goes on from it.
    goes_on: bool = False


@dataclass(frozen=True)
class ToolCallDelta:
    """A piece of calls to tools, as the server sent it (`delta.tool_calls`)."""

    calls: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class TextDelta:
    """Newly generated text, never empty."""

    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    """Newly generated text of a model's reasoning, apart from the answer; never empty."""

    text: str


@dataclass(frozen=True)
class Finished:
    """The end of a generation that went well; always the last event."""

    reason: Literal["stop", "length", "tool_calls"]
    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False  # the server gave no usage: counted here
    cached_tokens: int = 0  # of the prompt's, those that the server had in its cache
    details: dict[str, float] = field(default_factory=dict)  # e.g. llama.cpp's timings, in ms


GenerationEvent = TextDelta | ReasoningDelta | ToolCallDelta | Finished


class Generator(Protocol):
    """Streams an answer. Asynchronous; closing the iterator closes the connection at once."""

    name: str

    def stream(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent, None]:
        """Yield deltas, then one Finished; raise an InferenceError for anything else.

        Iterate under `contextlib.aclosing`: leaving an `async for` early does not close it.
        """
        ...

    async def count_tokens(self, text: str) -> int:
        """Tokens of `text` alone in the model's vocabulary.

        An upper estimate where the server cannot be asked. The chat template comes on top:
        `apps.inference.generators.tokens.template_tokens`.
        """
        ...

    async def health(self) -> None:
        """Return when the server is ready; raise an InferenceError otherwise."""
        ...
