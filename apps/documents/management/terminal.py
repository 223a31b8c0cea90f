"""Progress and tables on a terminal, or in a log."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from typing import TextIO

_QUIET_S = 2.0  # what takes less says nothing
_REDRAW_S = 0.1
_LINE_EVERY_S = 10.0
_BAR = 24


class Progress:
    """How far something is: one line, drawn over, on a terminal; now and then one in a log."""

    def __init__(self, stream: TextIO, label: str, total: int) -> None:
        self._stream, self._label, self._total = stream, label, total
        self._live = stream.isatty()
        self._began = time.monotonic()
        self._next = self._began + _QUIET_S
        self._drawn = 0

    def show(self, done: int, note: str = "") -> None:
        """Say that `done` of the total are done, where it is time to say so."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (_REDRAW_S if self._live else _LINE_EVERY_S)
        line = f"{self._label} {done} of {self._total}{self._time_left(done, now)}"
        if note:
            line += f"  {note}"
        if not self._live:
            self._stream.write(printable(line, self._stream) + "\n")
        else:
            filled = _BAR * done // max(1, self._total)
            line = f"[{'#' * filled}{'.' * (_BAR - filled)}] {line}"
            line = printable(line, self._stream)[: shutil.get_terminal_size().columns - 1]
            self._stream.write("\r" + line.ljust(self._drawn))
            self._drawn = len(line)
        self._stream.flush()

    def clear(self) -> None:
        """Leave the terminal as it was before."""
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()
            self._drawn = 0

    def _time_left(self, done: int, now: float) -> str:
        if not 0 < done < self._total:
            return ""
        seconds = (now - self._began) / done * (self._total - done)
        return f", about {int(seconds // 60)}:{int(seconds % 60):02} left"


def table(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Rows as aligned lines; the columns in `right` are aligned to the right."""
    if not rows:
        return []
    flush_right = set(right)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i in flush_right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def printable(text: str, stream: TextIO) -> str:
    """`text` on one line, without what would steer a terminal or what its encoding lacks."""
    shown = "".join(char if char.isprintable() else "�" for char in text)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return shown.encode(encoding, "replace").decode(encoding)
