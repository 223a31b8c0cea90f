"""What passes through the gateway."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

PromptStyle = Literal["instruct", "extractive"]
ModelKind = Literal["chat", "embedding", "rerank"]
UpstreamKind = Literal["tgi", "openai", "tei", "local"]
Measure = Literal["micros", "tokens"]


@dataclass(frozen=True)
class Model:
    """A model people and programs can name."""

    alias: str  # stable, stored with conversations
    label: str  # shown
    context_tokens: int  # prompt and answer together
    max_tokens: int  # longest answer
    passages: int  # how many passages suit it
    prompt: PromptStyle  # how it is best asked
    kind: ModelKind = "chat"
    routes: tuple[Route, ...] = ()


@dataclass(frozen=True)
class Route:
    """One way to a model: an upstream, and what the model is called there."""

    upstream: Upstream
    model: str  # "" where the upstream serves one model
    weight: int = 1  # share of the load among the routes of a model


@dataclass(frozen=True)
class Upstream:
    """A model server, and what may be asked of it. All processes share its bounds."""

    name: str  # unique, stored in the ledger
    kind: UpstreamKind
    url: str
    key: str = field(default="", repr=False)
    max_concurrency: int = 64  # calls at the same time, over all processes
    queue_timeout_s: float = 10.0  # longest wait for one of those places
    first_token_timeout_s: float = 60.0  # then another upstream is tried
    silence_timeout_s: float = 60.0  # between two tokens
    deadline_s: float = 600.0  # the whole call


class Source(StrEnum):
    """What a call was made for."""

    CHAT = "chat"
    API = "api"
    INGESTION = "ingestion"
    EVALUATION = "evaluation"
    COMMAND = "command"


@dataclass(frozen=True)
class Caller:
    """In whose name a call is made: what it is limited by, and what it is booked under."""

    tenant_id: uuid.UUID
    time_zone: str  # of the tenant: where its days and months begin
    source: Source
    user_id: int | None = None
    key_id: uuid.UUID | None = None
    conversation_id: uuid.UUID | None = None
    collection_ids: tuple[uuid.UUID, ...] = ()
    traceparent: str = ""  # W3C trace context of the request, "" without


@dataclass(frozen=True)
class Usage:
    """Tokens that one call to a model read and wrote."""

    prompt_tokens: int = 0
    cached_tokens: int = 0  # of the prompt's, those that the upstream had in its cache
    output_tokens: int = 0
    estimated: bool = False  # counted here, for the upstream told nothing

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.output_tokens


class Outcome(StrEnum):
    """How a call ended."""

    COMPLETE = "complete"
    STOPPED = "stopped"  # by the person, or by the caller's code
    DISCONNECTED = "disconnected"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"  # the process died; the sweeper booked what it had last noted


class CacheResult(StrEnum):
    """What a cache had to do with a call."""

    NONE = "none"  # no cache is in front of this hop
    HIT = "hit"
    SEMANTIC = "semantic"  # an answer to a question that means the same
    SHARED = "shared"  # an identical question was being answered: one call for both
    MISS = "miss"
    BYPASSED = "bypassed"  # not eligible; the reason is beside it
    ERROR = "error"  # the cache was down: answered without it


@dataclass(frozen=True)
class CacheNote:
    """What the ledger keeps of a cache's part in a call."""

    result: CacheResult = CacheResult.NONE
    reason: str = ""  # for BYPASSED: a word of a fixed set, never text
    saved_micros: int = 0
    saved_ms: float = 0.0


@dataclass(frozen=True)
class Call:
    """One call to a model that has ended: what one ledger row is made of."""

    hop: Literal["generate", "rewrite", "title", "embed", "rerank"]
    model: str  # alias
    upstream: str = ""  # "" where none was reached
    upstream_model: str = ""
    usage: Usage = Usage()
    cache: CacheNote = CacheNote()
    queue_ms: float = 0.0  # for a place at the upstream
    first_token_ms: float | None = None  # from the call's begin, queue included
    total_ms: float = 0.0
    attempts: int = 1
    outcome: Outcome = Outcome.COMPLETE
    error_code: str = ""
