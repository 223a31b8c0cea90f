"""Real vectors of short texts for the search benchmark: made once, kept under var/bench.

Sentences of the English collections in ../shared/data/retrieval, their clauses, and windows of two
and three of them, embedded by the product's own encoder. Blocks are kept as they are made, so that
an interrupted run goes on.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from apps.inference.local_encoder import LocalEncoder

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "retrieval"
CACHE = ROOT / "var" / "bench" / "search"
SOURCES = ("scifact", "squad1.1-dev", "squad2-cs224n", "musique-mini", "hotpotqa-mini")
BLOCK = 5_000
SEED = 4
SHORTEST = 25  # characters
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(])")
_CLAUSE_END = re.compile(r"(?<=[,;:])\s+")

Halves = npt.NDArray[np.float16]
Labels = npt.NDArray[np.int16]


@dataclass(frozen=True)
class Texts:
    """Texts, with the collection each is from (a place in SOURCES)."""

    texts: list[str]
    sources: Labels


@dataclass(frozen=True)
class Material:
    """Unit vectors, shape (n, dimensions), and the collection each is from."""

    passages: Halves
    passage_sources: Labels
    questions: Halves
    question_sources: Labels


def load(passages: int | None = None, questions: int | None = None) -> Material:
    """All, or the first so many of each in their fixed order; made where they are missing."""
    wanted, asked = passage_texts(), question_texts()
    vectors = _vectors("passages", wanted, passages)
    questioned = _vectors("questions", asked, questions)
    return Material(
        vectors, wanted.sources[: len(vectors)], questioned, asked.sources[: len(questioned)]
    )


def passage_texts() -> Texts:
    """All distinct pieces of text, shuffled."""
    found: dict[str, int] = {}
    for source, name in enumerate(SOURCES):
        with (DATA / name / "corpus.jsonl").open() as lines:
            for entry in map(json.loads, lines):
                for text in _pieces(entry["text"]):
                    found.setdefault(text, source)
    return _shuffled(found)


def question_texts() -> Texts:
    found: dict[str, int] = {}
    for source, name in enumerate(SOURCES):
        with (DATA / name / "queries.jsonl").open() as lines:
            for entry in map(json.loads, lines):
                found.setdefault(entry["text"], source)
    return _shuffled(found)


def _pieces(text: str) -> Iterator[str]:
    sentences = [part for part in _SENTENCE_END.split(text.strip()) if len(part) >= SHORTEST]
    for width in (1, 2, 3):
        for start in range(len(sentences) - width + 1):
            yield " ".join(sentences[start : start + width])
    for sentence in sentences:
        yield from (part for part in _CLAUSE_END.split(sentence) if len(part) >= SHORTEST)


def _shuffled(found: dict[str, int]) -> Texts:
    pairs = sorted(found.items())
    random.Random(SEED).shuffle(pairs)  # noqa: S311 - the same order every time
    return Texts([text for text, _ in pairs], np.array([source for _, source in pairs], np.int16))


def _vectors(name: str, texts: Texts, wanted: int | None) -> Halves:
    CACHE.mkdir(parents=True, exist_ok=True)
    count = min(wanted or len(texts.texts), len(texts.texts))
    encoder: LocalEncoder | None = None
    blocks = []
    for start in range(0, count, BLOCK):
        path = CACHE / f"{name}-{start}.npy"
        if not path.is_file():
            encoder = encoder or LocalEncoder("all-MiniLM-L6-v2", threads=1)
            _make_block(encoder, texts.texts[start : start + BLOCK], path)
            print(f"embedded {name} {start + BLOCK:,} of {count:,}", flush=True)
        blocks.append(np.load(path))
    return np.concatenate(blocks)[:count]


def _make_block(encoder: LocalEncoder, texts: list[str], path: Path) -> None:
    vectors = encoder.embed(encoder.tokenize(texts)).astype(np.float16)
    partial = path.with_suffix(".part.npy")
    np.save(partial, vectors)
    partial.rename(path)
