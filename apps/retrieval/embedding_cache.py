"""Vectors of questions, kept in Redis so that a question is not embedded twice.

It pays where an answer cannot be given again but its question comes again: a document was added,
or others ask who read other collections. Redis rather than each process's memory, for a question
comes back to whichever process is free. A tenant has SLOTS places and a new question takes that of
an older one: no tenant can fill Redis, and nobody has to clean up. What is kept is a vector and a
digest: no text. Whatever goes wrong here, the question is embedded as ever.
"""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from apps.inference.types import Vectors

logger = logging.getLogger(__name__)
PREFIX = "ragsite:emb:"
SLOTS = 4096  # of 1.6 kB each with 384 dimensions: at most 6.5 MB a tenant
# Embedding takes about as long on a busy machine: waiting for longer would gain nothing.
_TIMEOUT_S = 0.25
_DIGEST_BYTES = 32
_HEAD_BYTES = _DIGEST_BYTES + 4  # and the milliseconds that it took, as a float32


@dataclass(frozen=True)
class Question:
    """What a vector hangs on."""

    tenant_id: uuid.UUID
    model_id: str
    dimensions: int
    prompt: str
    text: str

    @property
    def digest(self) -> bytes:
        parts = [str(self.tenant_id), self.model_id, self.dimensions, self.prompt, self.text]
        canonical = json.dumps(parts, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return hashlib.sha256(canonical).digest()


@dataclass(frozen=True)
class Lookup:
    """What came of looking for a vector, in the words of the ledger."""

    result: Literal["hit", "miss", "bypassed", "error"]
    reason: str = ""  # of a bypass
    vector: Vectors | None = None
    embed_ms: float = 0.0  # what making it had taken


def look_up(question: Question, *, bypass: str = "") -> Lookup:
    """The question's vector, if it is kept; `bypass` says why it must be made anew."""
    reason = bypass or ("" if settings.EMBEDDING_CACHE_TTL_S > 0 else "switched_off")
    if reason:
        return Lookup("bypassed", reason)
    try:
        kept = _client(settings.REDIS_URL).get(_slot(question))
    except (redis.RedisError, OSError) as exc:
        logger.warning("vectors of questions cannot be read: %s", type(exc).__name__)
        return Lookup("error")
    return _read(question, bytes(kept)) if kept else Lookup("miss")  # type: ignore[arg-type]


def keep(question: Question, vector: Vectors, embed_ms: float) -> None:
    """Remember a vector that was made in `embed_ms`."""
    head = question.digest + np.float32(embed_ms).tobytes()
    value = head + vector.astype("<f4").tobytes()
    lifetime_ms = max(1, int(settings.EMBEDDING_CACHE_TTL_S * 1000))
    try:
        _client(settings.REDIS_URL).set(_slot(question), value, px=lifetime_ms)
    except (redis.RedisError, OSError) as exc:
        logger.warning("a question's vector cannot be kept: %s", type(exc).__name__)


def _slot(question: Question) -> str:
    slot = int.from_bytes(question.digest[:4], "big") % SLOTS
    return f"{PREFIX}{question.tenant_id}:{slot}"


def _read(question: Question, kept: bytes) -> Lookup:
    """A miss where the place is another question's, or holds no vector of the model."""
    size = _HEAD_BYTES + 4 * question.dimensions
    if len(kept) != size or kept[:_DIGEST_BYTES] != question.digest:
        return Lookup("miss")
    vector = np.frombuffer(kept, "<f4", offset=_HEAD_BYTES).astype(np.float32)
    if not np.isfinite(vector).all():
        return Lookup("miss")
    embed_ms = float(np.frombuffer(kept, "<f4", count=1, offset=_DIGEST_BYTES)[0])
    return Lookup("hit", vector=vector, embed_ms=embed_ms)


@cache
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url or "redis://127.0.0.1:1/0",
        socket_timeout=_TIMEOUT_S,
        socket_connect_timeout=_TIMEOUT_S,
        # Once more, for a connection that was closed meanwhile; by default it waits for seconds.
        retry=Retry(NoBackoff(), 1),
    )
