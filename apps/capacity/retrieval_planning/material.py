"""Vectors to measure with: the site's own, and more that lie among them as they lie themselves.

Random directions are no stand-in: they are all equally far from each other, where passages lie in
groups, and both the path through an HNSW graph and its recall depend on that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from django.db import connection

Vectors = npt.NDArray[np.float32]

OWN_MOST = 20_000
OWN_LEAST = 500  # with fewer, there is nothing to learn from how they lie
_NEIGHBOURS_OF = 300
_CLUSTERS = 64
_CLUSTER_NOISE = 0.75  # cosine 0.8 to the centre


@dataclass(frozen=True)
class Material:
    """Passages to come in this order, questions that are among none of them; unit vectors."""

    passages: Vectors
    questions: Vectors
    source: str


def make_material(*, dimensions: int, passages: int, questions: int, seed: int = 0) -> Material:
    """As many passages and questions as asked for, of shape (n, dimensions)."""
    rng = np.random.default_rng(seed)
    own = own_vectors(dimensions)
    if len(own) < OWN_LEAST:
        base = _centres(dimensions, rng)
        words = f"made up: {_CLUSTERS} groups, for the site has {len(own):,} vectors of this size"
        made = _around(base, passages + questions, _CLUSTER_NOISE, rng)
        return Material(made[questions:], made[:questions], words)
    own = own[rng.permutation(len(own))]
    noise = _noise_of(own)
    asked = _around(own[: questions // 2 or 1], questions, noise, rng)
    rest = own[questions // 2 or 1 :]
    if len(rest) >= passages:
        return Material(rest[:passages], asked, f"{passages:,} vectors of this site")
    made = _around(rest, passages - len(rest), noise, rng)
    words = (
        f"{len(rest):,} vectors of this site, and {len(made):,} made from them as far from each "
        f"other as the site's nearest are (cosine {_cosine_of(noise):.2f})"
    )
    return Material(np.concatenate([rest, made]), asked, words)


def own_vectors(dimensions: int) -> Vectors:
    """The newest vectors of these dimensions, of whichever tenant: figures, no text."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT embedding::text FROM search.chunkvector WHERE vector_dims(embedding) = %s "
            "ORDER BY id DESC LIMIT %s",
            [dimensions, OWN_MOST],
        )
        rows = [np.fromstring(text[1:-1], np.float32, sep=",") for (text,) in cursor.fetchall()]
    return np.array(rows, np.float32).reshape(-1, dimensions)


def _centres(dimensions: int, rng: np.random.Generator) -> Vectors:
    return _unit(rng.standard_normal((_CLUSTERS, dimensions), np.float32))


def _around(base: Vectors, count: int, noise: float, rng: np.random.Generator) -> Vectors:
    """Vectors at a random one's side each, off by `noise` times a random direction."""
    chosen = base[rng.integers(0, len(base), count)]
    aside = _unit(rng.standard_normal(chosen.shape, np.float32))
    made: Vectors = chosen + np.float32(noise) * aside
    return _unit(made)


def _noise_of(own: Vectors) -> float:
    """What puts a made vector as far from its origin as own ones are from their nearest."""
    some = own[:_NEIGHBOURS_OF]
    cosines = some @ own.T
    cosines[np.arange(len(some)), np.arange(len(some))] = -1.0
    nearest = float(np.clip(np.median(cosines.max(axis=1)), 0.3, 0.98))
    return float(np.sqrt(1 / nearest**2 - 1))


def _cosine_of(noise: float) -> float:
    return float(1 / np.sqrt(1 + noise**2))


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit
