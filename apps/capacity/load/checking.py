"""Token counts that the server reported against its own tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.capacity.load.measures import CrossCheck, Record
from apps.capacity.load.targets import Api, fetch_json
from apps.capacity.load.wire import Server


@dataclass(frozen=True)
class Checked:
    """A request whose texts were kept for the check; they go no further."""

    prompt: str
    output: str
    record: Record


async def cross_check(api: Api, server: Server, requests: Sequence[Checked]) -> CrossCheck | None:
    """Sums reported over sums counted; None where the server has no `/tokenize`, or nothing is."""
    known = [each for each in requests if each.record.tokens_reported]
    counts: list[tuple[int, int]] = []
    for each in known:
        prompt, output = await _count(api, server, each.prompt), 0
        if each.output:
            output = await _count(api, server, each.output) or 0
        if prompt is None:
            return None
        counts.append((prompt, output))
    prompts, outputs = sum(p for p, _ in counts), sum(o for _, o in counts)
    if not prompts:
        return None
    return CrossCheck(
        requests=len(known),
        prompt_ratio=sum(each.record.prompt_tokens for each in known) / prompts,
        output_ratio=sum(e.record.output_tokens for e in known) / outputs if outputs else None,
    )


async def _count(api: Api, server: Server, text: str) -> int | None:
    code, told = await fetch_json(server, api.ask_tokens(text))
    tokens: Any = told.get("tokens") if isinstance(told, dict) else told
    return len(tokens) if not code and isinstance(tokens, list) else None
