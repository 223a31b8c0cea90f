"""What a source is to the synchronisation: a listing, and files that can be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from apps.documents.files import Chunked, clean_path

# What editors, browsers and desktops leave beside the files they work on.
_LEAVINGS = re.compile(
    r"~\$.*|.*~|#.*#|.*\.(?:tmp|temp|swp|swo|part|partial|crdownload|download|lock)"
    r"|thumbs\.db|desktop\.ini|__macosx",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Entry:
    """A file that is there: `name` is the source's own, `path` the one its document has."""

    name: str
    path: str
    size_bytes: int
    stamp: str  # differs when the bytes may differ


@dataclass(frozen=True)
class Refusal:
    """A file that is not taken, in words for the person who watches."""

    path: str
    code: str
    message: str


@dataclass
class Listing:
    """All files of a source at one moment. Not `complete`: what is missing may still be there."""

    entries: list[Entry] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    complete: bool = True

    def paths(self) -> set[str]:
        """The paths that are there, taken or not."""
        return {each.path for each in self.entries} | {each.path for each in self.refusals}


class Reader(Protocol):
    """One kind of source, at one location."""

    def list_files(self) -> Listing:
        """Raises SourceUnreachable, TooManyFiles or StorageUnavailable."""

    def open_file(self, entry: Entry) -> AbstractContextManager[Chunked]:
        """The bytes of a file as it was listed. Raises FileChanging or FileUnreadable."""


def is_ignored(name: str) -> bool:
    """Whether a file or folder of this name is hidden or somebody's leavings."""
    return name.startswith(".") or _LEAVINGS.fullmatch(name) is not None


def name_apart(entries: Iterable[Entry]) -> Iterator[Entry | Refusal]:
    """Entries in the order of their names; of those that come to the same path, the first."""
    seen: set[str] = set()
    for entry in sorted(entries, key=lambda each: each.name):
        if entry.path in seen:
            message = "Another file of the folder comes to the same name. Rename one of the two."
            yield Refusal(entry.path, "path_taken", message)
        else:
            seen.add(entry.path)
            yield entry


def document_path(name: str) -> str:
    """A file's name as the path of its document: clean, at most 500 characters."""
    return clean_path(name)
