"""What bf16 costs in quality: the same texts in fp32 and in bf16, and searches in both."""

from __future__ import annotations

import json
import math
import random
from time import perf_counter

import numpy as np

from apps.documents.management.terminal import table
from apps.inference.local_encoder import LocalEncoder
from apps.inference.types import Vectors
from tests.bench.ingest_material import SCIFACT, abstracts

DEPTH = 10
_DTYPES = ("float32", "bfloat16")


def report(*, queries: int, passages: int) -> None:
    """Print cosine differences and nDCG@10 on a fixed sample of SciFact."""
    questions, relevant, texts = _sample(queries, passages)
    ids = list(texts)
    vectors: dict[str, Vectors] = {}
    asked: dict[str, Vectors] = {}
    for dtype in _DTYPES:
        encoder = LocalEncoder("all-MiniLM-L6-v2", threads=1, dtype=dtype)
        encodings = encoder.tokenize(list(texts.values()))
        start = perf_counter()
        vectors[dtype] = encoder.embed(encodings)
        rate = len(texts) / (perf_counter() - start)
        asked[dtype] = encoder.embed(encoder.tokenize(list(questions.values())))
        print(f"\n{dtype}: {rate:.1f} abstracts a second, one thread", end="")
    cosine = (vectors["float32"] * vectors["bfloat16"]).sum(axis=1)
    print(
        f"\nfp32 against bf16 on {len(texts)} abstracts: 1 - cosine is {1 - cosine.mean():.6f} "
        f"(mean), {1 - cosine.min():.6f} (worst)"
    )
    half = np.arange(len(ids)) % 2 == 0
    mixed = np.where(half[:, None], vectors["float32"], vectors["bfloat16"])
    rows: list[tuple[str, ...]] = [
        (f"nDCG@{DEPTH}, {len(questions)} questions", "fp32 questions", "bf16 questions")
    ]
    for name, index in (
        ("fp32 index", vectors["float32"]),
        ("bf16 index", vectors["bfloat16"]),
        ("half and half", mixed),
    ):
        scores = (
            _ndcg(list(questions), asked[dtype] @ index.T, ids, relevant) for dtype in _DTYPES
        )
        rows.append((name, *(f"{score:.4f}" for score in scores)))
    print(*table(rows, right=(1, 2)), sep="\n", flush=True)


def _sample(
    queries: int, passages: int
) -> tuple[dict[str, str], dict[str, set[str]], dict[str, str]]:
    """Questions with an answer, which abstracts answer them, and those with others around them."""
    chance = random.Random(3)  # noqa: S311 - not a secret
    relevant: dict[str, set[str]] = {}
    for line in (SCIFACT / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, passage, score = line.split("\t")
        if int(score) > 0:
            relevant.setdefault(query, set()).add(passage)
    chosen = chance.sample(sorted(relevant), min(queries, len(relevant)))
    corpus = {entry["_id"]: f"{entry['title']}\n{entry['text']}" for entry in abstracts()}
    wanted = set().union(*(relevant[query] for query in chosen))
    others = chance.sample(sorted(corpus.keys() - wanted), max(0, passages - len(wanted)))
    with (SCIFACT / "queries.jsonl").open() as lines:
        all_queries = {entry["_id"]: entry["text"] for entry in map(json.loads, lines)}
    return (
        {query: all_queries[query] for query in chosen},
        relevant,
        {passage: corpus[passage] for passage in sorted([*wanted, *others])},
    )


def _ndcg(
    queries: list[str], scores: Vectors, ids: list[str], relevant: dict[str, set[str]]
) -> float:
    """Mean nDCG@DEPTH; an abstract is relevant or not."""
    total = 0.0
    for query, row in zip(queries, scores, strict=True):
        best = [ids[at] for at in np.argsort(-row, kind="stable")[:DEPTH]]
        gain = sum(
            1 / math.log2(rank + 2) for rank, one in enumerate(best) if one in relevant[query]
        )
        ideal = sum(1 / math.log2(rank + 2) for rank in range(min(DEPTH, len(relevant[query]))))
        total += gain / ideal
    return total / len(queries)
