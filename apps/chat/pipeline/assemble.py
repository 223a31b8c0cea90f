"""Hop: assemble the prompt, within a token budget that is counted.

The passages come first in the budget, best first; then as much recent history as fits; then what
stands around the passages in their documents. What is quoted is data: it is numbered, delimited,
and stripped of anything that could pass for a turn of the conversation or a control token of the
model's chat template.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from apps.chat.pipeline.citations import content_terms, split_sentences
from apps.chat.pipeline.prompts import STYLES, Style
from apps.gateway.types import Model
from apps.inference.types import ChatTurn, GenerationRequest
from apps.retrieval.context import Neighbour
from apps.retrieval.types import Passage

CountTokens = Callable[[str], Awaitable[int]]

# Role markers and separators of the chat template, for each turn; measured at 5 to 8 a turn on
# the templates in use.
_TURN_OVERHEAD = 8
# Joining two texts costs a token or two more than both apart.
_JOIN_OVERHEAD = 2
# Control tokens of common chat templates: engines parse them wherever they stand in the prompt.
_CONTROL = re.compile(
    r"<\|[^|<>]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|</?(?:start|end)_of_turn>|<\|", re.IGNORECASE
)


@dataclass(frozen=True)
class Prompt:
    """What will be sent to which model, and which passages are in it."""

    model: Model
    request: GenerationRequest
    passages: tuple[Passage, ...]
    tokens: int  # of the prompt, as counted or estimated
    widened: tuple[Passage, ...] = ()  # the same with what was added around them


async def assemble(
    *,
    question: str,
    passages: Sequence[Passage],
    history: Sequence[ChatTurn],
    model: Model,
    count_tokens: CountTokens,
    neighbours: Sequence[Neighbour] = (),
    beginning: str = "",
) -> Prompt:
    """Fit the best passages and the latest history into the model's context.

    At least the first passage is kept, cut to what is left when it alone is too long. What is
    left in the end is filled with `neighbours` of the passages, in their order; a style that
    takes excerpts has chosen a narrower view, and gets none. `beginning`: what the answer says
    already, which the model is to go on from. A passage without text keeps its number, and is
    left out.
    """
    candidates = list(passages[: model.passages])
    style = STYLES[model.prompt]
    asked = " ".join(_CONTROL.sub(" ", question).split())
    begun = _begun(beginning)
    bare = (*style.turns((), (), asked), *begun)
    quotes = [_quote(style, i, passage, asked) for i, passage in enumerate(candidates, start=1)]
    fixed, *costs = await asyncio.gather(
        count_tokens("\n".join(turn.content for turn in bare)),
        *(count_tokens(quote) for quote in quotes),
        *(count_tokens(turn.content) for turn in history),
    )
    left = model.context_tokens - model.max_tokens - fixed - _TURN_OVERHEAD * len(bare)
    kept, left = _fit_passages(quotes, costs[: len(quotes)], left)
    turns, left = _fit_history(history, costs[len(quotes) :], left)
    given = candidates[: len(kept)]
    widened = given
    if left > _JOIN_OVERHEAD and not style.excerpt_chars:
        widened, left = await _widen(given, neighbours, left, count_tokens)
        kept = [
            quote if wide is plain else _quote(style, i, wide, asked)
            for i, (quote, plain, wide) in enumerate(
                zip(kept, given, widened, strict=True), start=1
            )
        ]
    return Prompt(
        model,
        GenerationRequest(
            turns=(*style.turns([quote for quote in kept if quote], turns, asked), *begun),
            max_tokens=model.max_tokens,
            stop=style.stop,
            goes_on=bool(begun),
        ),
        tuple(given),
        tokens=model.context_tokens - model.max_tokens - left,
        widened=tuple(widened),
    )


def _begun(beginning: str) -> tuple[ChatTurn, ...]:
    """The open turn. Templates trim white space at its end; what is written is joined after."""
    text = _CONTROL.sub(" ", beginning).rstrip()
    return (ChatTurn("assistant", text),) if text else ()


def _quote(style: Style, marker: int, passage: Passage, question: str) -> str:
    if not passage.text:
        return ""
    place = " › ".join(part for part in (passage.document_name, passage.heading_path) if part)
    text = excerpt(passage.text, question, style.excerpt_chars)
    return style.quote(marker, neutralise(place), neutralise(text))


def excerpt(text: str, question: str, limit_chars: int) -> str:
    """The run of whole sentences, at most `limit_chars` long, that shares most with the question.

    Sentences count by the question's content words they hold; of equal runs the first. 0 is no
    limit. A single sentence over the limit is given whole.
    """
    if not limit_chars or len(text) <= limit_chars:
        return text
    spans = list(split_sentences(text))
    asked = content_terms(question)
    worth = [len(asked & content_terms(text[start:end])) for start, end in spans]
    best, best_worth = (0, len(text)), -1.0
    for first, (start, _) in enumerate(spans):
        for last in range(first, len(spans)):
            end = spans[last][1]
            if last > first and end - start > limit_chars:
                break
            # More text counts only where worth is equal, and then for little.
            gained = sum(worth[first : last + 1]) + (end - start) / (1000 * limit_chars)
            if gained > best_worth:
                best, best_worth = (start, end), gained
    return text[best[0] : best[1]]


def neutralise(text: str) -> str:
    """One line of text in which nothing is a control token or a passage number."""
    flat = " ".join(_CONTROL.sub(" ", text).split())
    return re.sub(r"\[(\d{1,3})\]", r"(\1)", flat)


def _fit_passages(quotes: list[str], costs: Sequence[int], left: int) -> tuple[list[str], int]:
    kept: list[str] = []
    for quote, cost in zip(quotes, costs, strict=True):
        if cost > left:
            if not kept and left > 0:
                # Cut in proportion: a token never covers less than this share of the text.
                kept.append(quote[: max(1, len(quote) * left // (cost + 1))])
                left = 0
            break
        kept.append(quote)
        left -= cost
    return kept, left


def _fit_history(
    history: Sequence[ChatTurn], costs: Sequence[int], left: int
) -> tuple[list[ChatTurn], int]:
    """The latest whole exchanges (question with its answer) that fit."""
    kept: list[ChatTurn] = []
    for start in range(len(history) - 2, -1, -2):
        pair = history[start : start + 2]
        cost = sum(costs[start : start + 2]) + 2 * _TURN_OVERHEAD
        if cost > left or [turn.role for turn in pair] != ["user", "assistant"]:
            break
        kept[:0] = [ChatTurn(turn.role, _CONTROL.sub(" ", turn.content)) for turn in pair]
        left -= cost
    return kept, left


async def _widen(
    passages: Sequence[Passage],
    neighbours: Sequence[Neighbour],
    left: int,
    count_tokens: CountTokens,
) -> tuple[list[Passage], int]:
    """The passages with as many of their neighbours as fit whole, in the neighbours' order."""
    wide = {passage.chunk_id: passage for passage in passages}
    beside = [each for each in neighbours if each.passage.chunk_id in wide]
    costs = await asyncio.gather(*(count_tokens(neutralise(_added(each))) for each in beside))
    for neighbour, cost in zip(beside, costs, strict=True):
        if cost + _JOIN_OVERHEAD > left:
            continue
        left -= cost + _JOIN_OVERHEAD
        known = wide[neighbour.passage.chunk_id]
        parts = (
            (_added(neighbour), known.text)
            if neighbour.comes_before
            else (known.text, _added(neighbour))
        )
        wide[known.chunk_id] = replace(known, text="\n".join(parts))
    return [wide[passage.chunk_id] for passage in passages], left


def _added(neighbour: Neighbour) -> str:
    return f"({neighbour.heading}) {neighbour.text}" if neighbour.heading else neighbour.text
