"""A small model's loops are cut."""

from __future__ import annotations

import pytest

from apps.chat.pipeline.generate import before_repeat


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Leave is 25 days. Leave is 25 days.", "Leave is 25 days."),
        ("One. Two. One.", "One. Two."),
        ("Leave is 25 days. Leave is", None),
        ("Leave is 25 days. It starts in May.", None),
        ("", None),
        ("Once.", None),
    ],
)
def test_a_repeated_sentence_ends_the_answer(text: str, kept: str | None) -> None:
    assert before_repeat(text) == kept
