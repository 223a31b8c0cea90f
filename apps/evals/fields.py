"""What one field of a labelled question may hold, whatever file or form it comes from."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from apps.evals.errors import QuestionRefused

KEY_MAX_CHARS = 200
ANSWER_MAX_CHARS = 10_000
PASSAGE_MAX_CHARS = 20_000
SLICE_MAX_CHARS = 60
SLICES_MAX = 20
GRADE_MAX = 100
OFFSET_MAX = 2**31 - 1  # of PostgreSQL's integer

_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_NUMBER = re.compile(r"[+-]?[0-9]{1,12}(?:\.0+)?")
_YES = {"1", "true", "yes", "y", "x"}
_NO = {"", "0", "false", "no", "n"}


def clean(text: str) -> str:
    """Trimmed, without what PostgreSQL refuses and nobody sees: NUL, control characters, halves
    of surrogate pairs.
    """
    return _UNFIT.sub(" ", text).strip()


def key_of(text: str) -> str:
    """The key of a question that came with none: the same for the same words."""
    words = " ".join(text.casefold().split())
    return hashlib.sha256(words.encode()).hexdigest()[:32]


def bounded(value: object, name: str, most: int) -> str:
    """A text field of at most `most` characters. Raises QuestionRefused."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise QuestionRefused(f"{name} is not text.")
    text = clean(str(value))
    if len(text) > most:
        raise QuestionRefused(f"{name} has {len(text):,} characters; at most {most:,} are taken.")
    return text


def question_text(value: object) -> str:
    """Raises QuestionRefused where it is empty or longer than what is searched."""
    text = bounded(value, "The question", settings.QUESTION_MAX_CHARS)
    if not text:
        raise QuestionRefused("The question is empty.")
    return text


def whole(value: object, name: str, *, least: int, most: int) -> int:
    """A whole number from `least` to `most`. Raises QuestionRefused."""
    number = _whole(value)
    if number is None or not least <= number <= most:
        raise QuestionRefused(f"{name} is not a whole number from {least:,} to {most:,}.")
    return number


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() else None
    text = str(value).strip()
    return int(text.partition(".")[0]) if _NUMBER.fullmatch(text) else None


def flag(value: Any) -> bool:
    """Yes or no, as people write it. Raises QuestionRefused."""
    word = "" if value is None else str(value).strip().casefold()
    if word not in _YES | _NO:
        raise QuestionRefused("“unanswerable” is neither yes nor no.")
    return word in _YES


def slices_of(values: Iterable[object]) -> list[str]:
    """Names of slices, each once, in the order given. Raises QuestionRefused."""
    names = [bounded(value, "A slice", SLICE_MAX_CHARS) for value in values]
    found = list(dict.fromkeys(name for name in names if name))
    if len(found) > SLICES_MAX:
        raise QuestionRefused(f"There are {len(found)} slices; at most {SLICES_MAX} are taken.")
    return found


def split_slices(text: str) -> list[str]:
    """Raises QuestionRefused."""
    return slices_of(re.split(r"[;,|]", text))
