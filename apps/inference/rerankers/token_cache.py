"""Token vectors of the passages reranked most lately, up to so many bytes.

The same passages of a collection come up for question after question, and encoding them is nearly
all that late interaction costs.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Halves = npt.NDArray[np.float16]
# Of an entry beside its vectors: key, array header, links. Measured at 350 to 400 bytes.
_OVERHEAD_BYTES = 400


@dataclass(frozen=True)
class CacheFigures:
    """Since the start; a hit ratio is `hits / lookups`."""

    lookups: int
    hits: int
    bytes: int
    entries: int


class TokenCache:
    """Least recently used goes first. Thread-safe; a limit of 0 keeps nothing."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, Halves] = OrderedDict()
        self._bytes = 0
        self._lookups = 0
        self._hits = 0

    def get(self, text: str) -> Halves | None:
        """The vectors kept for exactly this text, shape (tokens, dimensions)."""
        key = _key(text)
        with self._lock:
            self._lookups += 1
            vectors = self._kept.get(key)
            if vectors is not None:
                self._hits += 1
                self._kept.move_to_end(key)
            return vectors

    def put(self, text: str, vectors: Halves) -> None:
        """Keep them, in the place of those that were longest of no use."""
        cost = _cost(vectors)
        if cost > self._limit:
            return
        key = _key(text)
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = vectors
            self._bytes += cost
            while self._bytes > self._limit:
                self._bytes -= _cost(self._kept.popitem(last=False)[1])

    def figures(self) -> CacheFigures:
        with self._lock:
            return CacheFigures(self._lookups, self._hits, self._bytes, len(self._kept))


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _cost(vectors: Halves) -> int:
    return int(vectors.nbytes) + _OVERHEAD_BYTES
