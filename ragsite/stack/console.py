"""What the stack tells the person at the terminal: one aligned, plain line per event."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Console:
    """Lines of `elapsed  part  words`, counted from when the console was made."""

    def __init__(self, output: TextIO | None = None) -> None:
        self._output = output or sys.stdout
        self._start = time.monotonic()

    def part(self, name: str, words: str) -> None:
        elapsed = time.monotonic() - self._start
        first, *rest = words.splitlines() or [""]
        self.line(f"{elapsed:7.1f} s  {name:<10}{first}")
        for line in rest:
            self.line(line)

    def line(self, words: str = "") -> None:
        self._output.write(words + "\n")
        self._output.flush()
