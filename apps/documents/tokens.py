"""Counting tokens as the embedding model does, without loading the model."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

# A "word" beyond a tokenizer's limit is one unknown token to it, however long: without a floor by
# length, a megabyte of unbroken letters would be one short chunk.
_CHARS_PER_TOKEN_MAX = 12
_PIECES = re.compile(r"[^\W_]+|[^\w\s]|_", re.UNICODE)
_ESTIMATED_CHARS_PER_TOKEN = 3

TokenCounter = Callable[[str], int]


@lru_cache(maxsize=1)
def load_counter(tokenizer_file: str | None) -> TokenCounter:
    """Counts tokens, special ones left out, with a `tokenizer.json`; estimates without one.

    The estimate errs on the high side: one token for three letters of a word and for each mark
    or ideograph. Chunks made by it are shorter than they need be, never longer. Kept once loaded:
    that takes longer than cutting a small document.
    """
    if tokenizer_file is None:
        return estimate_tokens
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(tokenizer_file)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return partial(_count, tokenizer)


def _count(tokenizer: object, text: str) -> int:
    ids = tokenizer.encode(text, add_special_tokens=False).ids  # type: ignore[attr-defined]
    return max(len(ids), len(text) // _CHARS_PER_TOKEN_MAX)


def estimate_tokens(text: str) -> int:
    """An upper estimate of the tokens of `text` in a usual vocabulary."""
    total = 0
    for piece in _PIECES.findall(text):
        wide = sum(1 for char in piece if char >= "\u2e80")
        total += wide + -(-(len(piece) - wide) // _ESTIMATED_CHARS_PER_TOKEN)
    return max(total, len(text) // _CHARS_PER_TOKEN_MAX)
