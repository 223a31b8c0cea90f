"""Opening Office Open XML files: a zip of XML parts that refer to one another.

Names of elements are compared without their namespace, of which there are two: the transitional
one and the strict one. No entity is expanded and nothing outside of the file is ever fetched: an
external reference is not followed, whatever it names.
"""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from lxml import etree

from apps.documents.errors import Damaged

# Office packs its XML 5 to 30 times; a bomb, a thousand times.
_RATIO_MAX = 150
_RATIO_COUNTS_FROM_BYTES = 100 * 1024 * 1024
_UNPACKED_MAX_BYTES = 8 * 1024**3
_ENTRIES_MAX = 20_000
# A part that is read whole.
_PART_MAX_BYTES = 64 * 1024 * 1024
_XML = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}

Element = Any  # an lxml element: its stubs are not installed


@dataclass(frozen=True)
class Relation:
    """Where a part refers to: another part by its full name. `kind` is the type's last word."""

    kind: str
    target: str


def name_of(element: Element) -> str:
    """The tag without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Element, name: str) -> str:
    """An attribute by its name without namespace; "" where there is none."""
    if (plain := element.get(name)) is not None:
        return str(plain)
    return next((str(v) for k, v in element.attrib.items() if k.rpartition("}")[2] == name), "")


def children(element: Element, name: str) -> Iterator[Element]:
    return (child for child in element if name_of(child) == name)


def child(element: Element | None, *path: str) -> Element | None:
    """The first element down a path of names."""
    for name in path:
        element = next(children(element, name), None) if element is not None else None
    return element


class Package:
    """An open file. Raises Damaged for a bomb."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        entries = archive.infolist()
        unpacked = sum(entry.file_size for entry in entries)
        packed = sum(entry.compress_size for entry in entries)
        bomb = unpacked > max(_RATIO_COUNTS_FROM_BYTES, packed * _RATIO_MAX)
        if bomb or unpacked > _UNPACKED_MAX_BYTES or len(entries) > _ENTRIES_MAX:
            raise Damaged(
                "The file unpacks to far more than its size, as decompression bombs do, and was "
                "not opened. Split it, or export it as PDF."
            )
        self._names = {entry.filename.lower().lstrip("/"): entry.filename for entry in entries}

    def names(self) -> list[str]:
        return list(self._names)

    def has(self, name: str) -> bool:
        return name.lower() in self._names

    def open(self, name: str) -> IO[bytes]:
        try:
            return self._archive.open(self._names[name.lower()])
        except KeyError as exc:
            raise damaged() from exc

    def size(self, name: str) -> int:
        """Bytes of the part, unpacked."""
        return self._archive.getinfo(self._names[name.lower()]).file_size

    def read(self, name: str) -> bytes:
        with self.open(name) as part:
            data = part.read(_PART_MAX_BYTES + 1)
        if len(data) > _PART_MAX_BYTES:
            raise Damaged("A part of the file is too large to be read. Export it as PDF.")
        return data

    def tree(self, name: str) -> Element | None:
        """The root element of a part; None where there is no such part."""
        if not self.has(name):
            return None
        return etree.fromstring(self.read(name), etree.XMLParser(**_XML))

    def main_part(self) -> str:
        """The name of the document itself."""
        found = (item for item in self.relations("").values() if item.kind == "officeDocument")
        return next(found, Relation("", "")).target

    def relations(self, part: str) -> dict[str, Relation]:
        """What a part refers to inside of the file, by id."""
        folder, _, name = part.rpartition("/")
        root = self.tree(f"{folder}/_rels/{name}.rels".lstrip("/"))
        if root is None:
            return {}
        return {
            item.get("Id", ""): Relation(
                item.get("Type", "").rpartition("/")[2], _resolved(folder, item.get("Target", ""))
            )
            for item in root
            if name_of(item) == "Relationship" and item.get("TargetMode") != "External"
        }


def _resolved(folder: str, target: str) -> str:
    path = target if target.startswith("/") else f"{folder}/{target}"
    return posixpath.normpath("/" + path).lstrip("/")


@contextmanager
def opened(path: Path) -> Iterator[Package]:
    """The file as a package. Whatever is wrong with its zip or XML comes out as Damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield Package(archive)
    except (
        zipfile.BadZipFile, zlib.error, etree.XMLSyntaxError, EOFError, NotImplementedError,
        OSError, RecursionError, RuntimeError, UnicodeError, ValueError, KeyError,
    ) as exc:  # fmt: skip
        raise damaged() from exc


def ends(source: IO[bytes], wanted: Callable[[Element], bool], *names: str) -> Iterator[Element]:
    """Elements of these names as they end, for a part too large to be read whole.

    Each that is `wanted` is yielded, and emptied when the next is asked for, with what stood before
    it: the tree never grows.
    """
    tags = [f"{{*}}{name}" for name in names]
    for _, element in etree.iterparse(source, events=("end",), tag=tags, **_XML):
        if wanted(element):
            yield element
            element.clear(keep_tail=False)
            while element.getprevious() is not None:
                del element.getparent()[0]


def damaged() -> Damaged:
    return Damaged(
        "The file is damaged or was cut off. Open it in its program, save it again, "
        "and upload the copy."
    )
