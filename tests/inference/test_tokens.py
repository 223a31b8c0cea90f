"""Estimates of tokens are upper ones."""

from __future__ import annotations

import pytest

from apps.inference.generators.tokens import estimate_tokens, template_tokens
from apps.inference.model_files import load_tokenizer
from apps.inference.types import ChatTurn

TEXTS = [
    "What is the capital of France?",
    "def f(x: int) -> int:\n    return x ** 2 + 1  # squared\n",
    "Invoice 2024-11-30: 1,234.56 EUR (VAT 19%)",
    "Antidisestablishmentarianism, internationalisation and electroencephalography",
    "Zürich – Größe naïve façade",
    "東京は日本の首都です。",
    "مرحبا بالعالم",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
def test_estimates_do_not_fall_short(text: str) -> None:
    tokenizer = load_tokenizer("all-MiniLM-L6-v2")
    assert estimate_tokens(text) >= len(tokenizer.encode(text, add_special_tokens=False).ids)


def test_estimates_of_prose_stay_within_double() -> None:
    text = "The passages that a question is answered from are shown beside the answer. " * 20
    tokenizer = load_tokenizer("all-MiniLM-L6-v2")
    assert estimate_tokens(text) < 2 * len(tokenizer.encode(text).ids)


def test_the_template_costs_something_for_every_turn() -> None:
    turns = [ChatTurn("system", "a"), ChatTurn("user", "b")]
    assert template_tokens(turns) > template_tokens(turns[:1]) > 0
