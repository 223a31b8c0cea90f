"""Taking turns at one model: questions first, documents in between, nobody for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

# After so many steps for questions one step for documents, or a busy chat would stop indexing.
QUESTION_STEPS_IN_A_ROW = 16


class Turns:
    """A lock that a question gets before any document waiting for it."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._busy = False
        self._questions = 0  # waiting
        self._documents = 0  # waiting
        self._in_a_row = 0
        self._since = 0.0
        self._busy_s = 0.0
        self._steps = 0

    def spent(self) -> tuple[float, int]:
        """Seconds that the model was held, all steps together and one at a time, and the steps."""
        with self._free:
            return self._busy_s, self._steps

    @contextmanager
    def question(self) -> Iterator[None]:
        """Hold the model for one step of a question."""
        with self._free:
            self._questions += 1
            self._free.wait_for(lambda: not self._busy and not self._documents_are_due())
            self._questions -= 1
            self._take()
            self._in_a_row += 1
        try:
            yield
        finally:
            self._release()

    @contextmanager
    def documents(self) -> Iterator[None]:
        """Hold the model for one step of documents."""
        with self._free:
            self._documents += 1
            self._free.wait_for(
                lambda: not self._busy and (not self._questions or self._documents_are_due())
            )
            self._documents -= 1
            self._take()
            self._in_a_row = 0
        try:
            yield
        finally:
            self._release()

    def _documents_are_due(self) -> bool:
        return self._documents > 0 and self._in_a_row >= QUESTION_STEPS_IN_A_ROW

    def _take(self) -> None:
        self._busy = True
        self._since = time.perf_counter()

    def _release(self) -> None:
        with self._free:
            self._busy = False
            self._busy_s += time.perf_counter() - self._since
            self._steps += 1
            self._free.notify_all()
