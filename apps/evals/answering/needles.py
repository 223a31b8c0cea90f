"""A needle in a haystack: is one made-up sentence found, at this length and this depth?

Where the context policy changes, a set of short questions says nothing of long prompts. Each cell
is a text of its own, made by seed, so that no prompt cache has seen it and no model knows it.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.retrieval.types import Passage

SHARES = (0.25, 0.5, 0.75, 0.95)  # of the room for a prompt that is in force
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
REPEATS = 2  # 4 lengths × 5 depths × 2 are 40 pairs: enough to tell
_OVERHEAD_TOKENS = 160  # rules, question and chat template
_CHARS_A_TOKEN = 4.0  # English; what a prompt really took is counted by the model's tokenizer
_PEOPLE = ("gardener", "clerk", "pilot", "baker", "surveyor", "archivist", "porter", "tailor")
_DID = ("repaired", "counted", "painted", "described", "sold", "carried", "measured", "sorted")
_THINGS = ("fences", "ledgers", "lanterns", "maps", "barrels", "windows", "carpets", "bridges")
_PLACES = ("harbour", "valley", "station", "orchard", "market", "tower", "village", "quarry")
_NAMES = ("amber", "cobalt", "silver", "crimson", "velvet", "marble", "copper", "indigo")


@dataclass(frozen=True)
class Cell:
    """A length in tokens, a depth from 0 (first) to 1 (last), and which try it is."""

    tokens: int
    depth: float
    repeat: int
    judged: bool = True  # both sides are asked; else the candidate alone, beyond what is in force


@dataclass(frozen=True)
class Needle:
    """What to hide, what to ask, and what is in an answer that has found it."""

    sentence: str
    question: str
    code: str


def grid(in_force_room: int, candidate_room: int, *, repeats: int = REPEATS) -> list[Cell]:
    """Cells within what is read now, which must go on being read; and one length beyond it.

    A room is the context less the longest answer, in tokens.
    """
    lengths = sorted({max(1, round(share * in_force_room)) for share in SHARES})
    cells = [
        Cell(tokens, depth, repeat)
        for tokens in lengths
        for depth in DEPTHS
        for repeat in range(repeats)
    ]
    if candidate_room > 1.1 * in_force_room:
        longest = round(SHARES[-1] * candidate_room)
        cells += [Cell(longest, depth, 0, judged=False) for depth in DEPTHS]
    return cells


def needle_of(cell: Cell, seed: int) -> Needle:
    """The same cell and seed give the same needle."""
    rng = _rng(cell, seed, "needle")
    name = f"{rng.choice(_NAMES)} {rng.choice(_PLACES)}"
    code = str(rng.randrange(1_000_000, 10_000_000))
    return Needle(
        f"The access code of the {name} vault is {code}.",
        f"What is the access code of the {name} vault?",
        code,
    )


def haystack(cell: Cell, seed: int, *, passages: int) -> list[Passage]:
    """About `cell.tokens` of text in `passages` passages, with the needle at its depth."""
    rng = _rng(cell, seed, "hay")
    chars = int(max(1, cell.tokens - _OVERHEAD_TOKENS) * _CHARS_A_TOKEN)
    sentences: list[str] = []
    while sum(map(len, sentences)) + len(sentences) < chars or len(sentences) < passages:
        sentences.append(_sentence(rng))
    at = round(cell.depth * len(sentences))
    sentences.insert(at, needle_of(cell, seed).sentence)
    size = -(-len(sentences) // passages)
    parts = [sentences[start : start + size] for start in range(0, len(sentences), size)]
    return [_passage(number, " ".join(part)) for number, part in enumerate(parts)]


def is_found(answer: str, needle: Needle) -> bool:
    """Whether its digits stand in the answer, whatever parts them."""
    return needle.code in re.sub(r"(?<=\d)[\s,.'’_-](?=\d)", "", answer)


def cells_read(cells: Sequence[Cell], found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of each length, depth and side: how often asked and found. For the grid that is shown."""
    counts: dict[tuple[str, int, float], list[int]] = {}
    for each in found:
        cell = cells[each["cell"]]
        for side in ("in_force", "candidate"):
            if side in each:
                counted = counts.setdefault((side, cell.tokens, cell.depth), [0, 0])
                counted[0] += 1
                counted[1] += bool(each[side])
    return [
        {"side": side, "tokens": tokens, "depth": depth, "asked": asked, "found": right}
        for (side, tokens, depth), (asked, right) in sorted(counts.items())
    ]


def _rng(cell: Cell, seed: int, what: str) -> random.Random:
    return random.Random(f"{seed}/{cell.tokens}/{cell.depth}/{cell.repeat}/{what}")  # noqa: S311


def _sentence(rng: random.Random) -> str:
    return (
        f"In the year {rng.randrange(1100, 1990)} the {rng.choice(_PEOPLE)} of the "
        f"{rng.choice(_NAMES)} {rng.choice(_PLACES)} {rng.choice(_DID)} "
        f"{rng.randrange(3, 900)} {rng.choice(_THINGS)}."
    )


def _passage(number: int, text: str) -> Passage:
    return Passage(
        chunk_id=uuid.UUID(int=number + 1),
        document_id=uuid.UUID(int=0),
        document_name=f"records-{number + 1}.txt",
        heading_path="",
        text=text,
        page_first=1,
        page_last=1,
        char_start=0,
        char_end=len(text),
        score=0.0,
        relevance=1.0,
    )
