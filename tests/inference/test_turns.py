"""Whose turn it is at the encoder's model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from ragsite.stack.turns import QUESTION_STEPS_IN_A_ROW, Turns


class Log:
    """Threads that note when they had their turn."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.order: list[str] = []
        self.threads: list[threading.Thread] = []

    def queue(self, name: str, turn: Callable[[], AbstractContextManager[None]]) -> None:
        def take() -> None:
            with turn():
                self.order.append(name)

        thread = threading.Thread(target=take)
        thread.start()
        self.threads.append(thread)
        time.sleep(0.02)  # until it waits

    def join(self) -> list[str]:
        for thread in self.threads:
            thread.join(timeout=5)
        return self.order


def test_a_question_goes_before_documents_that_waited_longer() -> None:
    log = Log()
    with log.turns.documents():
        log.queue("documents", log.turns.documents)
        log.queue("documents", log.turns.documents)
        log.queue("question", log.turns.question)
    assert log.join() == ["question", "documents", "documents"]


def test_documents_are_not_kept_waiting_for_ever() -> None:
    log = Log()
    with log.turns.documents():
        log.queue("documents", log.turns.documents)
        for _ in range(QUESTION_STEPS_IN_A_ROW + 5):
            log.queue("question", log.turns.question)
    order = log.join()
    assert order.index("documents") == QUESTION_STEPS_IN_A_ROW


def test_the_turn_ends_with_an_error_too() -> None:
    turns = Turns()
    try:
        with turns.documents():
            raise ValueError
    except ValueError:
        pass
    with turns.question():
        pass


def test_what_steps_took_is_added_up() -> None:
    turns = Turns()
    for _ in range(3):
        with turns.documents():
            time.sleep(0.01)
    busy_s, steps = turns.spent()
    assert steps == 3
    assert busy_s >= 0.03
