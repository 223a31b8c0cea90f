"""One question at one side of a gate: through the product's pipeline, or a needle in a prompt."""

from __future__ import annotations

import asyncio
import functools
import uuid
from contextlib import aclosing
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from apps.chat.pipeline import AnswerRequest, Outcome, answer_trace, ask
from apps.chat.pipeline.assemble import assemble
from apps.chat.pipeline.prompts import NOT_FOUND_WORDS
from apps.evals.answering.needles import Cell, haystack, is_found, needle_of
from apps.evals.answering.scoring import Given, place, references_of, score
from apps.evals.matching import Found
from apps.evals.questions import Asked
from apps.gateway import service as gateway
from apps.gateway.admission import admitted
from apps.gateway.calling import catalogue
from apps.gateway.metering import metered
from apps.gateway.types import Caller, Model
from apps.inference.types import TextDelta
from apps.telemetry.hops import Trace
from apps.telemetry.services import account_for

SIDES = ("in_force", "candidate")


class Degraded(Exception):
    """An answer was made without one of its parts: it would be measured as the model's fault."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Answered:
    """One side's answer to one question."""

    scores: dict[str, float]
    kept: dict[str, Any]  # for `AnswerResult.answers`


def ask_both(
    caller: Caller, models: dict[str, Model], asked: Asked, reference: str, *, candidate_first: bool
) -> dict[str, Answered]:
    """Both sides' answers, one after the other. Raises Degraded and GatewayError."""
    order = SIDES[::-1] if candidate_first else SIDES
    references = references_of(reference)
    return {side: _answered(caller, models[side], asked, references) for side in order}


def probe_side(caller: Caller, model: Model, cell: Cell, seed: int) -> bool:
    """Whether the needle is found. Raises GatewayError and InferenceError."""
    return asyncio.run(_probe(caller, model, cell, seed))


def _answered(caller: Caller, model: Model, asked: Asked, references: list[str]) -> Answered:
    request = AnswerRequest(
        tenant_id=caller.tenant_id,
        question=asked.text,
        collection_ids=caller.collection_ids,
        model=model,
        anew=True,  # what a cache gives is another configuration's answer
    )
    trace, outcome, began = answer_trace(caller, uuid.uuid4()), Outcome(), perf_counter()
    asyncio.run(_ask(caller, request, trace, outcome))
    account_for(trace)  # nobody's answer: not stored
    if outcome.notices:
        raise Degraded(outcome.notices[0].code)
    cited = _cited(outcome)
    given = Given(outcome.text, outcome.kind == "not_found", cited)
    scores = score(
        given, references=references, labels=asked.labels, unanswerable=asked.unanswerable
    )
    kept = {
        "text": outcome.text,
        "kind": outcome.kind,
        "cited": [[str(each.document_id), each.start, each.end] for each in cited],
        "prompt_tokens": outcome.prompt_tokens,
        "output_tokens": outcome.completion_tokens,
        "ms": round((perf_counter() - began) * 1000, 1),
        "cost_micros": outcome.cost_micros or 0,
    }
    return Answered(scores, kept)


async def _ask(caller: Caller, request: AnswerRequest, trace: Trace, outcome: Outcome) -> None:
    async with aclosing(ask(caller, request, trace, outcome)) as events:
        async for _ in events:
            pass


def _cited(outcome: Outcome) -> tuple[Found, ...]:
    passages = [outcome.passages[marker - 1] for marker in outcome.cited]
    return tuple(
        place(each.chunk_id, each.document_id, each.char_start, each.char_end) for each in passages
    )


async def _probe(caller: Caller, model: Model, cell: Cell, seed: int) -> bool:
    needle = needle_of(cell, seed)
    prompt = await assemble(
        question=needle.question,
        passages=haystack(cell, seed, passages=model.passages),
        history=(),
        model=model,
        count_tokens=functools.partial(gateway.count_tokens, model),
    )
    written = ""
    async with admitted(caller, request_id=uuid.uuid4()) as admission:
        tokens = (model.context_tokens - model.max_tokens, model.max_tokens)
        worst = gateway.worst_case(await catalogue.load(), model, tokens)
        async with admission.reserved(worst) as budget:
            call = metered(budget, model, prompt.request, prompt_tokens=prompt.tokens)
            async with aclosing(call) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        written += event.text
    return NOT_FOUND_WORDS not in written and is_found(written, needle)
