"""Token vectors kept: within their limit, the least used going first."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from apps.inference.rerankers.token_cache import Halves, TokenCache


def vectors(tokens: int = 8) -> Halves:
    return np.ones((tokens, 16), np.float16)  # 32 bytes a token


def test_what_was_put_is_got_and_counted() -> None:
    cache = TokenCache(10_000)
    assert cache.get("a") is None
    cache.put("a", vectors())
    assert cache.get("a") is not None
    figures = cache.figures()
    assert (figures.lookups, figures.hits, figures.entries) == (2, 1, 1)
    assert figures.bytes > 8 * 32


def test_the_limit_holds_and_the_least_lately_used_goes_first() -> None:
    cache = TokenCache(3 * 700)
    for name in "abc":
        cache.put(name, vectors())
    cache.get("a")
    cache.put("d", vectors())
    assert [name for name in "abcd" if cache.get(name) is not None] == ["a", "c", "d"]
    assert cache.figures().bytes <= 3 * 700


@pytest.mark.parametrize("limit", [0, 100])
def test_what_is_larger_than_the_limit_is_not_kept(limit: int) -> None:
    cache = TokenCache(limit)
    cache.put("a", vectors())
    assert cache.get("a") is None
    assert cache.figures().bytes == 0


def test_putting_a_text_twice_counts_its_bytes_once() -> None:
    cache = TokenCache(10_000)
    cache.put("a", vectors())
    once = cache.figures().bytes
    cache.put("a", vectors())
    assert cache.figures().bytes == once


def test_odd_text_is_only_text() -> None:
    cache = TokenCache(10_000)
    cache.put("\ud800\x00", vectors())
    assert cache.get("\ud800\x00") is not None


def test_threads_leave_its_bytes_right() -> None:
    cache = TokenCache(20 * 700)

    def use(start: int) -> None:
        for n in range(200):
            cache.put(f"{(start * 7 + n) % 60}", vectors())
            cache.get(f"{n % 60}")

    threads = [threading.Thread(target=use, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = cache.figures()
    assert figures.bytes == figures.entries * (8 * 32 + 400) <= 20 * 700
