"""Questions that a model of 135M parameters answers well, in slices. Pure, and the same each time.

All but the first are copying: a list is shown, begun again, and to be gone on with. What the list
was can only be read from the context's keys and values, which is what their precision concerns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from apps.capacity.load.prompts import WORDS

LISTS = 4
# The kinds of questions and how many there are of each were chosen on another draw.
_DRAWN = "second draw"
KNOWN = (
    "January February March April May June July August September October November December",
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "one two three four five six seven eight nine ten eleven twelve",
    "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z",
    "20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40",
)
SLICES = {
    "by heart": "rows that it knows without a context: months, letters, numbers",
    "words": "copy the next of 100 words",
    "numbers": "copy the next of 40 numbers of four digits",
}


@dataclass(frozen=True)
class Question:
    """`prompt` is to be gone on with `answer`, and then `stop`."""

    slice: str
    prompt: str
    answer: str
    stop: str


def questions(*, lists: int = LISTS) -> list[Question]:
    """In an order in which neighbours begin alike: their list is read once."""
    words = [each for number in range(lists) for each in _words(number)]
    return [*_by_heart(), *words, *_copied("numbers", 40, _number, -(-lists // 2))]


def is_right(question: Question, said: str) -> bool:
    """What was said up to the separator, without spaces around it."""
    return said.split(question.stop)[0].strip() == question.answer


def _by_heart() -> Iterator[Question]:
    for row in KNOWN:
        known = row.split()
        for at in range(3, min(len(known), 13)):
            yield Question("by heart", ", ".join(known[:at]) + ",", known[at], ",")


def _words(number: int) -> Iterator[Question]:
    """Every other of a row of 100 different words, asked with those before it."""
    shown = random.Random(f"{_DRAWN}/words/{number}").sample(sorted(set(WORDS)), 100)  # noqa: S311
    for at in range(2, len(shown), 2):
        prompt = ", ".join(shown) + "\n" + ", ".join(shown[:at]) + ","
        yield Question("words", prompt, shown[at], ",")


def _copied(
    name: str, length: int, make: Callable[[random.Random], str], lists: int
) -> Iterator[Question]:
    """Every other element of each list, asked with its elements before it and its first letter."""
    for number in range(lists):
        rng = random.Random(f"{_DRAWN}/{name}/{number}")  # noqa: S311 - not for secrets
        shown = [make(rng) for _ in range(length)]
        for at in range(2, length, 2):
            begun = "\n".join([*shown, "", *shown[:at]]) + "\n"
            whole = shown[at]
            yield Question(name, begun + whole[:1], whole[1:], "\n")


def _number(rng: random.Random) -> str:
    return str(rng.randrange(1000, 10000))
