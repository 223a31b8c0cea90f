"""Counting tokens where the server cannot be asked, and what a chat template adds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from apps.inference.types import ChatTurn, GenerationRequest

# ChatML, the widest of the common templates: `<|im_start|>role\n` … `<|im_end|>\n` a turn, the
# opening of the answer, and a default system turn where the template adds one. Measured on
# SmolLM2: 5 a turn and 3 for the answer.
TURN_TOKENS = 6
ANSWER_TOKENS = 4
_PIECES = re.compile(r"[A-Za-z]+|[^A-Za-z\s]|\s*\n\s*")
_WORD_CHARS_PER_TOKEN = 3


def template_tokens(turns: Sequence[ChatTurn]) -> int:
    """An upper estimate of what the chat template adds to the turns' own tokens."""
    return len(turns) * TURN_TOKENS + ANSWER_TOKENS


def prompt_text(request: GenerationRequest) -> str:
    """All text that the model is given: what the turns say, calls to tools, and the tools."""
    texts = [text for turn in request.turns for text in _texts(turn)]
    tools = request.options.get("tools")
    return "\n".join([*texts, json.dumps(tools, ensure_ascii=False)] if tools else texts)


def _texts(turn: ChatTurn) -> Iterator[str]:
    parts = turn.extra.get("content")
    if isinstance(parts, list):
        # A picture's tokens are not in its bytes: servers tell them, or nobody does.
        known = (part for part in parts if isinstance(part, Mapping))
        yield from (str(part["text"]) for part in known if "text" in part)
    else:
        yield turn.content
    if calls := turn.extra.get("tool_calls"):
        yield json.dumps(calls, ensure_ascii=False)


def estimate_tokens(text: str) -> int:
    """An upper estimate of `text`'s tokens in any usual vocabulary.

    One for each digit, punctuation mark and run of line ends, one for every three letters of a
    word, one for each UTF-8 byte beyond ASCII (which byte-level vocabularies cannot exceed).
    """
    return sum(_tokens_of(piece) for piece in _PIECES.findall(text))


def _tokens_of(piece: str) -> int:
    if piece.isascii() and piece.isalpha():
        return -(-len(piece) // _WORD_CHARS_PER_TOKEN)
    return 1 if piece.isspace() else len(piece.encode())
