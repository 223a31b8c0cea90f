"""Time to first token through the site, against the same prompt sent straight to the engine.

Pairs: the same question goes both ways, in turn the one or the other first. Before each, the
engine's prompt caches are overwritten, so that neither profits from what was asked before.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
from django.conf import settings
from websockets.sync.client import ClientConnection

from apps.chat.pipeline.assemble import assemble
from apps.documents.models import Collection
from apps.gateway import service as gateway
from apps.inference.types import GenerationRequest
from apps.retrieval.pipeline import retrieve
from apps.telemetry.hops import Trace
from ragsite.stack.demo import client
from ragsite.stack.demo.people import Demo
from ragsite.stack.engine import SLOTS

BEFORE = ("embed", "search", "rerank")


@dataclass(frozen=True)
class Pair:
    """One question both ways; milliseconds."""

    site_ms: float
    before_ms: float  # embed, search and rerank, which the site does and the engine does not
    direct_ms: float
    prompt_tokens: int

    @property
    def added_ms(self) -> float:
        return self.site_ms - self.before_ms - self.direct_ms


def measure(
    chat: ClientConnection, demo: Demo, collection: Collection, asked: Iterator[str], count: int
) -> list[Pair]:
    """`count` pairs; questions that the site answers without the model are passed over."""
    pairs: list[Pair] = []
    # The engine drops a connection that was idle for some seconds, sometimes under a new request.
    limits = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(trust_env=False, timeout=120.0, limits=limits) as engine:
        while len(pairs) < count:
            question = next(asked)
            request, tokens = _prompt(demo, collection, question)
            site_first = len(pairs) % 2 == 0
            direct_ms = 0.0 if site_first else _direct(engine, request)
            _overwrite_caches(engine)
            answer = client.ask(chat, question, collections=[str(collection.id)])
            if answer.finished["kind"] != "generated" or answer.first_token_ms is None:
                continue
            if site_first:
                direct_ms = _direct(engine, request)
            before = sum(h["work_ms"] for h in answer.hops if h["hop"] in BEFORE)
            pairs.append(Pair(answer.first_token_ms, before, direct_ms, tokens))
    return pairs


def _prompt(demo: Demo, collection: Collection, question: str) -> tuple[GenerationRequest, int]:
    """The prompt that the site will make of `question`, by the site's own functions."""
    found = retrieve(
        tenant_id=demo.tenant.id,
        question=question,
        collection_ids=[collection.id],
        trace=Trace(tenant_id=demo.tenant.id, kind="answer"),
    )
    model = gateway.find_model("")
    prompt = asyncio.run(
        assemble(
            question=question,
            passages=found.passages,
            history=(),
            model=model,
            count_tokens=partial(gateway.count_tokens, model),
        )
    )
    return prompt.request, prompt.tokens


def _direct(engine: httpx.Client, request: GenerationRequest) -> float:
    """Milliseconds from sending to the first text, with nothing of ours in between."""
    _overwrite_caches(engine)
    body = {
        "messages": [{"role": turn.role, "content": turn.content} for turn in request.turns],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "stop": list(request.stop),
        "stream": True,
    }
    sent, first_ms = time.perf_counter(), 0.0
    with _post(engine, "/v1/chat/completions", body) as answer:
        for line in answer.iter_lines():
            if not first_ms and _has_text(line):
                first_ms = (time.perf_counter() - sent) * 1000
    return first_ms


def _overwrite_caches(engine: httpx.Client) -> None:
    """Give every slot of the engine another prompt, without the chat template all others share."""
    for slot in range(SLOTS):
        body = {"prompt": uuid.uuid4().hex, "n_predict": 1, "id_slot": slot}
        with _post(engine, "/completion", body) as answer:
            answer.read()
            answer.raise_for_status()


def _post(engine: httpx.Client, path: str, body: dict[str, Any]) -> Any:
    return engine.stream(
        "POST",
        settings.OPENAI_URL.removesuffix("/v1") + path,
        json=body,
        headers={"Authorization": f"Bearer {settings.OPENAI_API_KEY}"},
    )


def _has_text(line: str) -> bool:
    if not line.startswith("data: {"):
        return False
    choices = json.loads(line.removeprefix("data: ")).get("choices")
    return bool(choices and choices[0]["delta"].get("content"))
