"""What the model of an answer in work was shown, where whoever ends it in place of its process can
match its citations. A frame of sources has only the beginnings of their texts."""

from __future__ import annotations

import json
import logging
import uuid
from dataclasses import asdict
from typing import Any

from redis.exceptions import RedisError

from apps.chat.pipeline.types import Outcome
from apps.chat.streams.keys import KEPT_S, evidence_key
from apps.gateway.redis import client
from apps.retrieval.types import Passage

logger = logging.getLogger(__name__)


async def keep_evidence(answer_id: uuid.UUID, outcome: Outcome) -> None:
    """Keep what `outcome` says was shown."""
    kept = {
        "given": outcome.given,
        "passages": [_as_json(passage) for passage in outcome.passages],
        "widened": [_as_json(passage) for passage in outcome.widened],
    }
    try:
        await client().set(evidence_key(answer_id), json.dumps(kept), ex=KEPT_S)
    except (RedisError, OSError) as exc:
        logger.warning("what a model was shown is not kept: %s", type(exc).__name__)


async def drop_evidence(answer_id: uuid.UUID) -> None:
    """The answer has ended."""
    try:
        await client().delete(evidence_key(answer_id))
    except (RedisError, OSError):
        return  # it expires


async def read_evidence(answer_id: uuid.UUID, outcome: Outcome) -> None:
    """Give `outcome` what was kept; nothing where nothing is."""
    try:
        kept = await client().get(evidence_key(answer_id))
    except (RedisError, OSError):
        return
    if kept is not None:
        found = json.loads(kept)
        outcome.given = found["given"]
        outcome.passages = tuple(_passage(each) for each in found["passages"])
        outcome.widened = tuple(_passage(each) for each in found["widened"])


def _as_json(passage: Passage) -> dict[str, Any]:
    data = asdict(passage)
    return {
        **data,
        "chunk_id": str(passage.chunk_id),
        "document_id": str(passage.document_id),
        "stages": None,
    }


def _passage(data: dict[str, Any]) -> Passage:
    ids = {name: uuid.UUID(data[name]) for name in ("chunk_id", "document_id")}
    return Passage(**{**data, **ids})
