"""Fields of a config.json, each read as what it must be. Somebody's file: nothing is believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NoReturn

from apps.capacity.errors import CatalogueError

LARGEST_BYTES = 2**20  # real ones have a few KiB; with lists of quantised layers some 100 KiB
_SHOWN = 40  # characters of a wrong value that a message repeats


class Fields:
    """One object of the file. `path` is how messages call it: "" or "text_config."."""

    def __init__(self, values: Mapping[str, object], path: str = "") -> None:
        self._values = values
        self.path = path

    def has(self, name: str) -> bool:
        """Whether it is there and not null."""
        return self._values.get(name) is not None

    def is_null(self, name: str) -> bool:
        """Whether it is there as null, which says something; a missing one does not."""
        return name in self._values and self._values[name] is None

    def whole(self, name: str, most: int, least: int = 1) -> int:
        """A whole number; CatalogueError names the field where it is missing or no such number."""
        value = self._given(name)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not least <= value <= most:  # type: ignore[operator]
            self.refuse(name, f"is no whole number from {least:,} to {most:,}")
        return int(value)  # type: ignore[call-overload, no-any-return]

    def flag(self, name: str, absent: bool | None = None) -> bool:
        """true or false; `absent` stands for a missing one, None refuses it."""
        if absent is not None and not self.has(name):
            return absent
        value = self._given(name)
        if not isinstance(value, bool):
            self.refuse(name, "is neither true nor false")
        return bool(value)

    def text(self, name: str) -> str:
        value = self._given(name)
        if not isinstance(value, str):
            self.refuse(name, "is no text")
        return str(value)

    def wholes(self, name: str, most: int, longest: int) -> list[int]:
        """A list of whole numbers from 0; a missing one is empty."""
        found = self._list(name, longest)
        if any(isinstance(v, bool) or not isinstance(v, int) or not 0 <= v <= most for v in found):
            self.refuse(name, f"holds something other than whole numbers from 0 to {most:,}")
        return [int(v) for v in found]  # type: ignore[call-overload]

    def texts(self, name: str, longest: int) -> list[str]:
        """A list of texts; a missing one is empty."""
        found = self._list(name, longest)
        if not all(isinstance(v, str) for v in found):
            self.refuse(name, "holds something other than texts")
        return [str(v) for v in found]

    def inner(self, name: str) -> Fields:
        """An object within this one."""
        value = self._given(name)
        if not isinstance(value, dict):
            self.refuse(name, "is no object")
        return Fields(value, f"{self.path}{name}.")

    def refuse(self, name: str, why: str) -> NoReturn:
        """Raise CatalogueError at that field, with its value where it has one."""
        is_there = name in self._values
        value = f" ({repr(self._values[name])[:_SHOWN]})" if is_there else ""
        raise CatalogueError(f"config.json, {self.path}{name}: {why}{value}.")

    def _given(self, name: str) -> object:
        if not self.has(name):
            self.refuse(
                name,
                "is missing. Library defaults are of another model, so nothing is put in its place",
            )
        return self._values[name]

    def _list(self, name: str, longest: int) -> list[object]:
        if not self.has(name):
            return []
        value = self._values[name]
        if not isinstance(value, list) or len(value) > longest:
            self.refuse(name, f"is no list of at most {longest:,}")
        return list(value)


def parse_config(content: bytes | str) -> Fields:
    """The whole file; CatalogueError where it is no JSON object of at most 1 MiB."""
    if len(content) > LARGEST_BYTES:
        raise CatalogueError("config.json: has more than 1 MiB; that is no model's configuration.")
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
        found = json.loads(text, parse_constant=_no_number)
    # A number of thousands of digits is a ValueError too.
    except (ValueError, RecursionError) as exc:
        raise CatalogueError(
            "config.json: cannot be read as JSON; give the file as it is in the checkpoint."
        ) from exc
    if not isinstance(found, dict):
        raise CatalogueError("config.json: is no object in braces.")
    return Fields(found)


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and the infinities are not JSON
