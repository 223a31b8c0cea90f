"""What the engine answers where a prompt or an answer does not fit into its context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson

from apps.capacity.failures.engines import engine

CONTEXT = 256  # tokens of a slot
TITLES = {
    "long prompt": f"a prompt longer than a slot's {CONTEXT} tokens",
    "long answer": f"an answer that grows beyond a slot's {CONTEXT} tokens",
    "shared pool": f"two answers that together outgrow a shared pool of {2 * CONTEXT} tokens",
}


@dataclass(frozen=True)
class Answered:
    """What came back: `code` and `words` are the server's own where it says no."""

    trial: str
    status: int
    finish: str = ""
    output_tokens: int | None = None
    code: str = ""
    words: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def try_overflows(log: Path) -> list[Answered]:
    """The three trials of TITLES, on two small engines."""
    options = ("--slots", "1", "--slot-tokens", str(CONTEXT))
    with engine(*options, log=log) as running, running.client() as client:
        long_prompt = _ask(client, "long prompt", words=2 * CONTEXT, tokens=8)
        long_answer = _ask(client, "long answer", words=20, tokens=2 * CONTEXT)
    pooled = ("--slots", "2", "--slot-tokens", str(CONTEXT), "--shared-context")
    with engine(*pooled, log=log) as running, running.client() as client, _two() as threads:
        both = [
            threads.submit(_ask, client, "shared pool", words=words, tokens=2 * CONTEXT)
            for words in (20, 25)
        ]
        return [long_prompt, long_answer, *(each.result() for each in both)]


def _two() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2)


def _ask(client: httpx.Client, trial: str, *, words: int, tokens: int) -> Answered:
    body = {
        "messages": [{"role": "user", "content": "go " * words}],
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    with client.stream("POST", "/v1/chat/completions", json=body) as reply:
        if reply.status_code != 200:
            return _refused(trial, reply.status_code, _parsed(reply.read()))
        events = [_parsed(line[5:].encode()) for line in _data(reply.iter_lines())]
    return _streamed(trial, events)


def _data(lines: Iterator[str]) -> Iterator[str]:
    """Events, and errors that come in their midst."""
    for line in lines:
        if line.startswith(("data:", "error:")) and line != "data: [DONE]":
            yield line.replace("error:", "data:", 1)


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _streamed(trial: str, events: Sequence[dict[str, Any]]) -> Answered:
    finish, tokens = "", None
    for event in events:
        if "error" in event:
            return _refused(trial, 200, event)
        for choice in event.get("choices") or ():
            finish = choice.get("finish_reason") or finish
        tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    return Answered(trial, 200, finish=finish, output_tokens=tokens)


def _refused(trial: str, status: int, body: dict[str, Any]) -> Answered:
    error = body.get("error")
    told = error if isinstance(error, dict) else {}
    words = str(told.get("message") or "")[:200]
    code = f"{told.get('code') or ''} {told.get('type') or ''}".strip()
    return Answered(trial, status, code=code, words=words)


def overflow_sentences(answered: Sequence[Answered]) -> list[str]:
    return [f"The engine was sent {TITLES[each.trial]}: {_outcome(each)}" for each in answered]


def _outcome(each: Answered) -> str:
    if each.status != 200:
        return f"it answered HTTP {each.status} ({each.code}): “{each.words}”"
    if each.code or each.words:
        return f"the stream broke off with an error event ({each.code}): “{each.words}”"
    return (
        f"HTTP 200, {each.output_tokens} tokens, and the stream ended with "
        f"finish_reason “{each.finish}”."
    )
