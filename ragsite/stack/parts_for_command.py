"""Parts of the stack for the duration of one management command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def ensure_parts(arguments: Sequence[str]) -> Iterator[None]:
    yield
